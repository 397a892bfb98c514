import { Menu } from "@base-ui/react/menu";
import { useQuery } from "@tanstack/react-query";
import { sessionQuery } from "../api/queries";
import { sessionValue, signOut } from "../api/session";
import { clockShort } from "../lib/format";
import { buttonClass } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { openPalette, openSheet } from "./overlays";
import { applyTheme, THEMES, type Theme, useTheme } from "./theme";

/** Who is signed in, and the way out. With a token of the dev proxy there is no session to end. */
export function AccountItems() {
  const { data } = useQuery(sessionQuery);
  return (
    <>
      {data?.expiresAt != null && <div className="pop-label">session until {clockShort(data.expiresAt)} UTC</div>}
      {data !== undefined && (
        <div className="pop-label">
          {(data.principal.products ?? []).length === 0
            ? "all products"
            : `products: ${data.principal.products?.join(", ")}`}
        </div>
      )}
      {sessionValue() !== null && (
        <Menu.Item className="pop-item" onClick={() => void signOut()}>
          Sign out
        </Menu.Item>
      )}
    </>
  );
}

/** What the foot of the rail offers, on screens that are too narrow for it. */
export function NarrowMenu() {
  const theme = useTheme();
  const { data } = useQuery(sessionQuery);
  return (
    <Menu.Root>
      <Menu.Trigger className={`${buttonClass("plain", false, true)} narrow-menu`} aria-label="Menu">
        <Icon name="more" />
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner align="end" sideOffset={4}>
          <Menu.Popup className="pop">
            <Menu.Item className="pop-item" onClick={openPalette}>
              Jump to…
            </Menu.Item>
            <Menu.Item className="pop-item" onClick={openSheet}>
              Keys
            </Menu.Item>
            <Menu.Separator className="pop-sep" />
            <Menu.RadioGroup value={theme} onValueChange={(next: Theme) => applyTheme(next)} aria-label="Theme">
              {THEMES.map((one) => (
                <Menu.RadioItem key={one} value={one} className="pop-item">
                  Theme: {one}
                  <span className="right">{one === theme && <Icon name="check" />}</span>
                </Menu.RadioItem>
              ))}
            </Menu.RadioGroup>
            <Menu.Separator className="pop-sep" />
            {data !== undefined && (
              <div className="pop-label">
                {data.principal.name} · {data.principal.role}
              </div>
            )}
            <AccountItems />
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}

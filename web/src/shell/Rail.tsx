import { Menu } from "@base-ui/react/menu";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { healthQuery, sessionQuery } from "../api/queries";
import { sessionValue } from "../api/session";
import type { SessionView } from "../api/types";
import { useIsCurrent } from "../live";
import { Icon, type IconName, Mark } from "../ui/Icon";
import { AccountItems } from "./AccountMenu";
import { useNeeds } from "./needs";
import { openSheet } from "./overlays";
import { ProductSwitcher, useProduct } from "./ProductSwitcher";
import { applyTheme, nextTheme, useTheme } from "./theme";

export const PAGES = [
  { to: "/", key: "f", label: "Fleet", icon: "fleet" },
  { to: "/needs-me", key: "n", label: "Needs me", icon: "needs" },
  { to: "/jobs", key: "j", label: "Jobs", icon: "jobs" },
  { to: "/budgets", key: "b", label: "Budgets", icon: "budgets" },
  { to: "/dispatch", key: "d", label: "Dispatch", icon: "dispatch" },
  { to: "/admin", key: "a", label: "Admin", icon: "admin" },
] as const satisfies readonly { to: string; key: string; label: string; icon: IconName }[];

export function Rail() {
  const theme = useTheme();
  const { data: health } = useQuery(healthQuery);
  const { data: session } = useQuery(sessionQuery);
  return (
    <div className="rail">
      <div className="brand">
        <Mark />
        <span>giga</span>
        {health !== undefined && (
          <small title="coordinator and its version">{coordinatorName(session, health.version)}</small>
        )}
      </div>
      <ProductSwitcher className="switcher" />
      <nav className="nav" aria-label="Main">
        {PAGES.map((page) => (
          <Link
            key={page.to}
            to={page.to}
            title={`${page.label} (g ${page.key})`}
            activeOptions={{ exact: page.to === "/", includeSearch: false }}
            activeProps={{ "aria-current": "page" }}
          >
            <Icon name={page.icon} />
            <span>{page.label}</span>
            {page.to === "/needs-me" && <NeedsCount />}
          </Link>
        ))}
      </nav>
      <div className="rail-foot">
        <button type="button" onClick={() => openSheet()}>
          Keys <kbd className="kbd">?</kbd>
        </button>
        <button
          type="button"
          onClick={() => applyTheme(nextTheme(theme))}
          title="Switch between system, light and dark"
        >
          Theme: {theme}
        </button>
        <Account />
      </div>
    </div>
  );
}

function coordinatorName(session: SessionView | undefined, version: string): string {
  const name = session?.coordinator?.name ?? "";
  return name === "" ? `v${version}` : name;
}

function NeedsCount() {
  const { items, total } = useNeeds(useProduct());
  const isCurrent = useIsCurrent();
  if (items === undefined || total === 0) return null;
  return (
    <span className={`count is-open ${isCurrent ? "" : "is-old"}`}>
      {total > 99 ? "99+" : total}
      <span className="sr"> items</span>
    </span>
  );
}

/** Who is signed in, and the way out. With a token of the dev proxy there is no session to end. */
function Account() {
  const { data } = useQuery(sessionQuery);
  const hasSession = sessionValue() !== null;
  if (data === undefined && !hasSession) return null;
  return (
    <Menu.Root>
      <Menu.Trigger>
        <span className="t1">
          {data === undefined ? "Signed in" : `${data.principal.name} · ${data.principal.role}`}
        </span>
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner side="top" align="start" sideOffset={4}>
          <Menu.Popup className="pop">
            <AccountItems />
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}

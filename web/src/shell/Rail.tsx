import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { healthQuery } from "../api/queries";
import { sessionValue, signOut } from "../api/session";
import { useIsCurrent } from "../live";
import { Icon, type IconName, Mark } from "../ui/Icon";
import { useNeeds } from "./needs";
import { openSheet } from "./overlays";
import { ProductSwitcher, useProduct } from "./ProductSwitcher";
import { applyTheme, nextTheme, useTheme } from "./theme";

export const PAGES = [
  { to: "/", key: "f", label: "Fleet", icon: "fleet" },
  { to: "/needs-me", key: "n", label: "Needs me", icon: "needs" },
  { to: "/jobs", key: "j", label: "Jobs", icon: "jobs" },
  { to: "/dispatch", key: "d", label: "Dispatch", icon: "dispatch" },
  { to: "/admin", key: "a", label: "Admin", icon: "admin" },
] as const satisfies readonly { to: string; key: string; label: string; icon: IconName }[];

export function Rail() {
  const theme = useTheme();
  const { data: health } = useQuery(healthQuery);
  return (
    <div className="rail">
      <div className="brand">
        <Mark />
        <span>giga</span>
        {health !== undefined && <small title="coordinator version">v{health.version}</small>}
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
        {sessionValue() !== null && (
          <button type="button" onClick={() => void signOut()}>
            Sign out
          </button>
        )}
      </div>
    </div>
  );
}

function NeedsCount() {
  const { needs, hasMore } = useNeeds(useProduct());
  const isCurrent = useIsCurrent();
  if (needs === undefined || needs.length === 0) return null;
  const text = `${needs.length}${hasMore ? "+" : ""}`;
  return (
    <span className={`count is-open ${isCurrent ? "" : "is-old"}`}>
      {text}
      <span className="sr"> items</span>
    </span>
  );
}

import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
  retainSearchParams,
} from "@tanstack/react-router";
import { JOB_TABS, type JobTab } from "./pages/job/tabs";
import { parseJobsSearch } from "./pages/jobs/search";
import { NEED_GROUPS, type NeedGroup } from "./pages/needs/look";
import { NotFound, PageFailed } from "./shell/Fallbacks";
import { Shell } from "./shell/Shell";

type Raw = Record<string, unknown>;
const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

/**
 * A page that is loaded when it is first shown. A failed load is named here: the router would reload the tab, which
 * during an outage replaces everything on screen by the browser's error page.
 */
function page<T extends Record<string, unknown>, K extends keyof T & string>(load: () => Promise<T>, name: K) {
  const named = () =>
    load().catch((error: unknown) => {
      throw new Error(`a chunk of this page is missing: ${error instanceof Error ? error.message : error}`);
    });
  return lazyRouteComponent(named, name);
}

const rootRoute = createRootRoute({ component: Outlet, notFoundComponent: NotFound, errorComponent: PageFailed });

const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/sign-in",
  validateSearch: (search: Raw): { from?: string } => ({ from: text(search.from) }),
  component: page(() => import("./pages/SignIn"), "SignIn"),
});

const shellRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: "shell",
  component: Shell,
  validateSearch: (search: Raw): { product?: string } => ({ product: text(search.product) }),
  search: { middlewares: [retainSearchParams(["product"])] },
});

const fleetRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/",
  component: page(() => import("./pages/fleet/FleetPage"), "FleetPage"),
});

const factoryRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/factories/$id",
  component: page(() => import("./pages/fleet/FactoryPage"), "FactoryPage"),
});

const needsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/needs-me",
  validateSearch: (search: Raw): { kind?: NeedGroup } => ({
    kind: (Object.keys(NEED_GROUPS) as NeedGroup[]).find((kind) => kind === search.kind),
  }),
  component: page(() => import("./pages/needs/NeedsPage"), "NeedsPage"),
});

const jobsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/jobs",
  validateSearch: parseJobsSearch,
  component: page(() => import("./pages/jobs/JobsPage"), "JobsPage"),
});

const jobRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/jobs/$id",
  validateSearch: (search: Raw): { tab?: JobTab; run?: number; line?: number } => ({
    tab: JOB_TABS.find((tab) => tab === search.tab),
    run: typeof search.run === "number" ? search.run : undefined,
    line: typeof search.line === "number" ? search.line : undefined,
  }),
  component: page(() => import("./pages/job/JobPage"), "JobPage"),
});

const newRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/new",
  validateSearch: (search: Raw): { from?: string; kind?: "plan" } => ({
    from: text(search.from),
    kind: search.kind === "plan" ? "plan" : undefined,
  }),
  component: page(() => import("./pages/new/NewJobPage"), "NewJobPage"),
});

const budgetsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/budgets",
  component: page(() => import("./pages/budgets/BudgetsPage"), "BudgetsPage"),
});

const budgetRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/budgets/$id",
  component: page(() => import("./pages/budgets/BudgetsPage"), "BudgetsPage"),
});

const dispatchRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/dispatch",
  component: page(() => import("./pages/dispatch/DispatchPage"), "DispatchPage"),
});

const adminRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/admin",
  beforeLoad: ({ location }) => {
    if (location.pathname === "/admin")
      throw redirect({ to: "/admin/$tab", params: { tab: "products" }, replace: true });
  },
});

const adminTabRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "$tab",
  component: page(() => import("./pages/admin/AdminPage"), "AdminPage"),
});

const shell = shellRoute.addChildren([
  fleetRoute,
  factoryRoute,
  needsRoute,
  jobsRoute,
  jobRoute,
  newRoute,
  budgetsRoute,
  budgetRoute,
  dispatchRoute,
  adminRoute.addChildren([adminTabRoute]),
]);

const PRELOAD_AFTER_MS = 2_500;

export const router = createRouter({
  routeTree: rootRoute.addChildren([signInRoute, shell]),
  scrollRestoration: true,
  defaultPreload: "intent",
  defaultErrorComponent: PageFailed,
  defaultNotFoundComponent: NotFound,
});

/** Loads the other pages while nothing else happens: during an outage they could not be loaded any more. */
export function preloadPages() {
  const pages = [
    () => import("./pages/fleet/FleetPage"),
    () => import("./pages/needs/NeedsPage"),
    () => import("./pages/jobs/JobsPage"),
    () => import("./pages/job/JobPage"),
    () => import("./pages/fleet/FactoryPage"),
    () => import("./pages/budgets/BudgetsPage"),
    () => import("./pages/dispatch/DispatchPage"),
    () => import("./pages/new/NewJobPage"),
    () => import("./pages/admin/AdminPage"),
    () => import("./shell/Palette"),
    () => import("./shell/KeySheet"),
    () => import("./pages/SignIn"),
  ];
  setTimeout(async () => {
    await Promise.allSettled(pages.map((load) => load()));
  }, PRELOAD_AFTER_MS);
}

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

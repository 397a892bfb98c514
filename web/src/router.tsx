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

const rootRoute = createRootRoute({ component: Outlet, notFoundComponent: NotFound, errorComponent: PageFailed });

const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/sign-in",
  validateSearch: (search: Raw): { from?: string } => ({ from: text(search.from) }),
  component: lazyRouteComponent(() => import("./pages/SignIn"), "SignIn"),
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
  component: lazyRouteComponent(() => import("./pages/fleet/FleetPage"), "FleetPage"),
});

const factoryRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/factories/$id",
  component: lazyRouteComponent(() => import("./pages/fleet/FactoryPage"), "FactoryPage"),
});

const needsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/needs-me",
  validateSearch: (search: Raw): { kind?: NeedGroup } => ({
    kind: (Object.keys(NEED_GROUPS) as NeedGroup[]).find((kind) => kind === search.kind),
  }),
  component: lazyRouteComponent(() => import("./pages/needs/NeedsPage"), "NeedsPage"),
});

const jobsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/jobs",
  validateSearch: parseJobsSearch,
  component: lazyRouteComponent(() => import("./pages/jobs/JobsPage"), "JobsPage"),
});

const jobRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/jobs/$id",
  validateSearch: (search: Raw): { tab?: JobTab; run?: number; line?: number } => ({
    tab: JOB_TABS.find((tab) => tab === search.tab),
    run: typeof search.run === "number" ? search.run : undefined,
    line: typeof search.line === "number" ? search.line : undefined,
  }),
  component: lazyRouteComponent(() => import("./pages/job/JobPage"), "JobPage"),
});

const newRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/new",
  validateSearch: (search: Raw): { from?: string } => ({ from: text(search.from) }),
  component: lazyRouteComponent(() => import("./pages/new/NewJobPage"), "NewJobPage"),
});

const dispatchRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/dispatch",
  component: lazyRouteComponent(() => import("./pages/dispatch/DispatchPage"), "DispatchPage"),
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
  component: lazyRouteComponent(() => import("./pages/admin/AdminPage"), "AdminPage"),
});

const shell = shellRoute.addChildren([
  fleetRoute,
  factoryRoute,
  needsRoute,
  jobsRoute,
  jobRoute,
  newRoute,
  dispatchRoute,
  adminRoute.addChildren([adminTabRoute]),
]);

export const router = createRouter({
  routeTree: rootRoute.addChildren([signInRoute, shell]),
  scrollRestoration: true,
  defaultPreload: "intent",
  defaultErrorComponent: PageFailed,
  defaultNotFoundComponent: NotFound,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

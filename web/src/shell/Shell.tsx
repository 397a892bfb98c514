import { Outlet, useNavigate, useRouter } from "@tanstack/react-router";
import { lazy, Suspense, useEffect } from "react";
import { onReset, onUpgrade, usePhase } from "../live";
import { say } from "../ui/toasts";
import { Banner } from "./Banner";
import { Bar } from "./Bar";
import { type Binding, listenForKeys, useKeys } from "./keys";
import { useNeeds } from "./needs";
import { closeOverlay, openPalette, openSheet, useOverlay } from "./overlays";
import { useProduct } from "./ProductSwitcher";
import { PAGES, Rail } from "./Rail";
import { useTitle } from "./useTitle";

const Palette = lazy(() => import("./Palette").then((module) => ({ default: module.Palette })));
const KeySheet = lazy(() => import("./KeySheet").then((module) => ({ default: module.KeySheet })));

export function Shell() {
  const phase = usePhase();
  const overlay = useOverlay();
  const navigate = useNavigate();
  const router = useRouter();
  useTitle(useNeeds(useProduct()).total);
  useEffect(listenForKeys, []);
  useEffect(() => onReset(() => say("Caught up", "Some events were missed; everything on screen was read again")), []);
  useEffect(() => onUpgrade(() => say("The coordinator was upgraded", "Reload this page to use the new version")), []);
  useEffect(() => {
    if (phase === "signed-out")
      void navigate({ to: "/sign-in", search: { from: router.state.location.href }, replace: true });
  }, [phase, navigate, router]);

  const bindings: Binding[] = [
    { keys: "Mod-k", label: "Jump to a job, factory or page", group: "Everywhere", run: openPalette },
    { keys: "?", label: "Show keys", group: "Everywhere", run: openSheet },
    { keys: "c", label: "New job", group: "Everywhere", run: () => void navigate({ to: "/new" }) },
    ...PAGES.map((page) => ({
      keys: `g ${page.key}`,
      label: page.label,
      group: "Go to",
      run: () => void navigate({ to: page.to }),
    })),
  ];
  useKeys(bindings);

  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to content
      </a>
      <Rail />
      <div className={`col ${phase === "down" ? "is-down-col" : ""}`}>
        <Bar>
          <Banner />
          <main id="main" className={phase === "down" || phase === "signed-out" ? "is-stale" : undefined}>
            <Outlet />
          </main>
        </Bar>
      </div>
      <Suspense>
        {overlay === "palette" && <Palette onClose={closeOverlay} />}
        {overlay === "sheet" && <KeySheet />}
      </Suspense>
    </div>
  );
}

import { useSyncExternalStore } from "react";

/** The width of the phone rules in app.css. */
const query = typeof matchMedia === "undefined" ? null : matchMedia("(max-width: 860px)");

function subscribe(listener: () => void) {
  query?.addEventListener("change", listener);
  return () => query?.removeEventListener("change", listener);
}

export function useIsNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => query?.matches ?? false);
}

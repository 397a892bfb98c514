import { useSyncExternalStore } from "react";

export type Overlay = "palette" | "sheet" | null;

let open: Overlay = null;
const listeners = new Set<() => void>();

function set(next: Overlay) {
  open = next;
  for (const listener of listeners) listener();
}

export const openPalette = () => set("palette");
export const openSheet = () => set("sheet");
export const closeOverlay = () => set(null);

export function useOverlay(): Overlay {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => open,
  );
}

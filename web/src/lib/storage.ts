import { useSyncExternalStore } from "react";

/** A small setting of this browser. Reads and writes never throw. */
export function setting<T extends string>(key: string, values: readonly T[], initial: T) {
  const name = `giga.${key}`;
  const listeners = new Set<() => void>();
  const get = (): T => {
    try {
      const found = localStorage.getItem(name);
      return values.find((value) => value === found) ?? initial;
    } catch {
      return initial;
    }
  };
  addEventListener("storage", (event) => {
    if (event.key === name) for (const listener of listeners) listener();
  });
  return {
    get,
    set(value: T) {
      try {
        localStorage.setItem(name, value);
      } catch {
        // Storage is blocked: the setting lasts until the reload.
      }
      for (const listener of listeners) listener();
    },
    use(): T {
      // biome-ignore lint/correctness/useHookAtTopLevel: `use` is a hook by name
      return useSyncExternalStore((listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      }, get);
    },
  };
}

/** Longer text kept for this browser: a draft. */
export function loadText(key: string): string | null {
  try {
    return localStorage.getItem(`giga.${key}`);
  } catch {
    return null;
  }
}

export function saveText(key: string, text: string | null) {
  try {
    if (text === null) localStorage.removeItem(`giga.${key}`);
    else localStorage.setItem(`giga.${key}`, text);
  } catch {
    // Storage is blocked or full: the draft lasts until the reload.
  }
}

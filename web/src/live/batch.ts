/** Collects values and hands them over once per animation frame; once per second while the page is hidden. */
export function perFrame<T>(flush: (values: T[]) => void): (value: T) => void {
  let pending: T[] = [];
  let isScheduled = false;
  const run = () => {
    isScheduled = false;
    const values = pending;
    pending = [];
    flush(values);
  };
  return (value) => {
    pending.push(value);
    if (isScheduled) return;
    isScheduled = true;
    if (document.visibilityState === "visible") requestAnimationFrame(run);
    else setTimeout(run, 1_000);
  };
}

/** Runs `work` at most once per `ms`, the first time after `ms`. Keys given meanwhile are collected. */
export function throttled(ms: number, work: (keys: Set<string>) => void): (key: string) => void {
  let keys = new Set<string>();
  let pendingTimer: ReturnType<typeof setTimeout> | undefined;
  return (key) => {
    keys.add(key);
    pendingTimer ??= setTimeout(() => {
      pendingTimer = undefined;
      const due = keys;
      keys = new Set();
      work(due);
    }, ms);
  };
}

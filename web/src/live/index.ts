import { QueryClient } from "@tanstack/react-query";
import { useEffect, useState, useSyncExternalStore } from "react";
import { isRetryable, observeReads } from "../api/client";
import { onSession } from "../api/session";
import type { JobEvent } from "../api/types";
import { frameApplier } from "./apply";
import { Live } from "./leader";
import { isCurrent, type LiveState, type Phase, POLL_EVERY_MS } from "./machine";

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 15_000,
      gcTime: 10 * 60_000,
      retry: (count, error) => count < 2 && isRetryable(error),
      // The stream keeps a tab current, also in the background.
      refetchOnWindowFocus: false,
      refetchOnReconnect: false,
    },
  },
});

const listeners = new Set<() => void>();
const eventListeners = new Set<(event: JobEvent) => void>();
const resetListeners = new Set<() => void>();
const upgradeListeners = new Set<() => void>();
let firstBuild: string | null = null;
let live: Live | null = null;
let poller: ReturnType<typeof setInterval> | undefined;

/** Answers whose frames have no id, so that the stream does not repeat them: read again when the connection is back. */
const NOT_REPEATED = ["factories", "alerts", "metrics", "history", "credentials", "flags", "divergence", "needs"];

export function startLive() {
  const apply = frameApplier({
    queries,
    onJobEvent: (event) => eventListeners.forEach((listener) => void listener(event)),
    onReset: () => resetListeners.forEach((listener) => void listener()),
    onHello: ({ build }) => {
      if (build === undefined) return;
      if (firstBuild !== null && build !== firstBuild) upgradeListeners.forEach((listener) => void listener());
      firstBuild ??= build;
    },
  });
  let phase: Phase = "connecting";
  const started = new Live({
    onFrame: apply,
    onState: (state) => {
      if (state.phase === "live" && phase !== "live" && phase !== "connecting") caughtUp();
      phase = state.phase;
      poll(state.phase === "polling");
      for (const listener of listeners) listener();
    },
  });
  live = started;
  observeReads((report) => {
    if (report === "unauthenticated") started.input({ kind: "unauthenticated" });
    else if (started.state.phase !== "live") started.input({ kind: report === "ok" ? "read-ok" : "read-failed" });
  });
  onSession((isSignedIn) => {
    if (isSignedIn) void queries.resetQueries();
    else queries.clear();
    started.input({ kind: isSignedIn ? "signed-in" : "unauthenticated" });
  });
}

function caughtUp() {
  for (const key of NOT_REPEATED) void queries.invalidateQueries({ queryKey: [key] });
  void queries.invalidateQueries({ predicate: (query) => query.state.status === "error" });
}

function poll(isOn: boolean) {
  if (isOn) poller ??= setInterval(() => void queries.invalidateQueries(), POLL_EVERY_MS);
  else {
    clearInterval(poller);
    poller = undefined;
  }
}

export function retryNow() {
  live?.retry();
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const BEFORE_START: LiveState = {
  phase: "connecting",
  brokenSince: null,
  asOf: null,
  lastRead: null,
  attempts: 0,
  nextAttemptAt: null,
};

/** Re-renders when the phase changes, and on each attempt while the stream is broken. */
export function useLive(): LiveState {
  return useSyncExternalStore(subscribe, () => live?.state ?? BEFORE_START);
}

export function usePhase(): Phase {
  return useSyncExternalStore(subscribe, () => live?.state.phase ?? "connecting");
}

/** Whether what is on screen is of now: only then may a list say that it is empty. */
export function useIsCurrent(): boolean {
  return isCurrent(usePhase());
}

export function onJobEvent(listener: (event: JobEvent) => void): () => void {
  eventListeners.add(listener);
  return () => eventListeners.delete(listener);
}

export function onReset(listener: () => void): () => void {
  resetListeners.add(listener);
  return () => resetListeners.delete(listener);
}

/** The time, moving every `everyMs` while the page is visible. */
export function useNow(everyMs = 1_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") setNow(Date.now());
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** The coordinator was upgraded while this tab was open. */
export function onUpgrade(listener: () => void): () => void {
  upgradeListeners.add(listener);
  return () => upgradeListeners.delete(listener);
}

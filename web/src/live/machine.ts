// The states of the connection (UI.md §3), as a pure function. Time comes with each input.

export type Phase = "connecting" | "live" | "reconnecting" | "polling" | "down" | "signed-out";

export type LiveState = {
  phase: Phase;
  /** When the stream was lost, or was first tried. */
  brokenSince: number | null;
  /** When the coordinator last answered anything: the age of the data. */
  asOf: number | null;
  /** When a plain read last succeeded. */
  lastRead: number | null;
  /** Failed attempts in a row. */
  attempts: number;
  /** When the next attempt is due. */
  nextAttemptAt: number | null;
};

export type Input =
  | { kind: "opened" }
  | { kind: "frame" }
  | { kind: "lost"; nextAttemptAt: number }
  | { kind: "read-ok" }
  | { kind: "read-failed" }
  | { kind: "unauthenticated" }
  | { kind: "signed-in" }
  | { kind: "tick" };

/** Shorter gaps change only the dot. */
export const QUIET_MS = 3_000;
/** From here on the data counts as old. */
export const DOWN_MS = 10_000;

export function initialState(now: number): LiveState {
  return { phase: "connecting", brokenSince: now, asOf: null, lastRead: null, attempts: 0, nextAttemptAt: null };
}

export function step(state: LiveState, input: Input, now: number): LiveState {
  if (state.phase === "signed-out" && input.kind !== "signed-in" && input.kind !== "opened") return state;
  switch (input.kind) {
    case "opened":
      return { ...state, phase: "live", brokenSince: null, asOf: now, attempts: 0, nextAttemptAt: null };
    case "frame":
      return state.phase === "live" ? { ...state, asOf: now } : state;
    case "lost":
      return settle(
        {
          ...state,
          brokenSince: state.brokenSince ?? now,
          attempts: state.attempts + 1,
          nextAttemptAt: input.nextAttemptAt,
        },
        now,
      );
    case "read-ok":
      return settle({ ...state, asOf: now, lastRead: now }, now);
    case "read-failed":
      return settle({ ...state, lastRead: null }, now);
    case "unauthenticated":
      return { ...state, phase: "signed-out", nextAttemptAt: null };
    case "signed-in":
      return initialState(now);
    case "tick":
      return settle(state, now);
    default:
      return input satisfies never;
  }
}

/** The phase that follows from how long the stream has been broken and whether reads are answered. */
function settle(state: LiveState, now: number): LiveState {
  const phase = phaseOf(state, now);
  return phase === state.phase ? state : { ...state, phase };
}

function phaseOf(state: LiveState, now: number): Phase {
  if (state.brokenSince === null) return "live";
  const broken = now - state.brokenSince;
  if (broken < DOWN_MS) return state.asOf === null ? "connecting" : "reconnecting";
  const readsAnswer = state.lastRead !== null && now - state.lastRead < POLL_EVERY_MS * 2 + DOWN_MS;
  return readsAnswer ? "polling" : "down";
}

/** How often the pages read while the stream is refused. */
export const POLL_EVERY_MS = 5_000;

/** Whether the screen may claim "nothing here", and whether writes are offered. */
export function isCurrent(phase: Phase): boolean {
  return phase === "live" || phase === "polling" || phase === "reconnecting";
}

/** Whether the word is shown, or only the dot: the first seconds of a gap are not news. */
export function isQuiet(state: LiveState, now: number): boolean {
  return state.phase === "reconnecting" && state.brokenSince !== null && now - state.brokenSince < QUIET_MS;
}

const FIRST_MS = 1_000;
const EARLY_MAX_MS = 4_000;
const LATE_MAX_MS = 30_000;
const EARLY_FOR_MS = 60_000;

/** How long to wait before the next attempt: 1 s doubling to 4 s in the first minute, then to 30 s, with jitter of a fifth. */
export function backoff(attempts: number, brokenForMs: number, random: number): number {
  const max = brokenForMs < EARLY_FOR_MS ? EARLY_MAX_MS : LATE_MAX_MS;
  const base = Math.min(FIRST_MS * 2 ** Math.min(attempts, 10), max);
  return Math.round(base * (0.8 + 0.4 * random));
}

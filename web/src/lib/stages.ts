import type { FailureReason, RunOutcome, StageName } from "../api/types";
import type { GlyphName } from "../ui/Glyph";

type StageLook = { glyph: GlyphName; className: string; word: string; hint: string };

export const STAGE: Record<StageName, StageLook> = {
  queued: { glyph: "queued", className: "st-queued", word: "queued", hint: "waiting for a seat" },
  blocked: {
    glyph: "blocked",
    className: "st-blocked",
    word: "blocked",
    hint: "waiting for a dependency or an answer",
  },
  assigned: {
    glyph: "assigned",
    className: "st-assigned",
    word: "assigned",
    hint: "lease granted, engine not started",
  },
  building: { glyph: "building", className: "st-building", word: "building", hint: "the agent works on it" },
  review: { glyph: "review", className: "st-review", word: "review", hint: "waiting for a review" },
  testing: { glyph: "testing", className: "st-testing", word: "testing", hint: "completed, waiting to be merged" },
  shipped: { glyph: "shipped", className: "st-shipped", word: "shipped", hint: "merged" },
  failed: { glyph: "failed", className: "st-failed", word: "failed", hint: "ended without a result" },
  dead_letter: {
    glyph: "dead",
    className: "st-dead",
    word: "dead letter",
    hint: "given up until an operator requeues it",
  },
};

export const OPEN_STAGES = [
  "queued",
  "blocked",
  "assigned",
  "building",
  "review",
  "testing",
] as const satisfies readonly StageName[];

const REASONS: Record<FailureReason, string> = {
  timeout: "timed out",
  budget_exceeded: "budget exceeded",
  crash: "the engine crashed",
  verify_failed: "verify failed",
  capability_mismatch: "a capability is missing",
  no_engine: "no engine available",
  engine_error: "engine error",
  rejected: "rejected",
  dep_failed: "a dependency failed",
  cancelled: "cancelled",
  retries_exhausted: "retries exhausted",
  undeliverable: "undeliverable",
};

export function reasonWords(reason: FailureReason): string {
  return REASONS[reason];
}

/** A sentence of the coordinator with the code of a reason in words: `dead-lettered (retries_exhausted): …`. */
export function withReasonWords(text: string): string {
  return text.replace(/\(([a-z_]+)\)/, (found, code: string) =>
    Object.hasOwn(REASONS, code) ? `(${REASONS[code as FailureReason]})` : found,
  );
}

export function outcomeWords(outcome: RunOutcome | null | undefined): {
  word: string;
  className: string;
  glyph: GlyphName;
} {
  if (outcome === null || outcome === undefined)
    return { word: "running", className: "st-building", glyph: "building" };
  if (typeof outcome === "object")
    return { word: `failed: ${reasonWords(outcome.failed)}`, className: "st-failed", glyph: "failed" };
  switch (outcome) {
    case "completed":
      return { word: "completed", className: "st-shipped", glyph: "shipped" };
    case "lease_lost":
      return { word: "lease expired", className: "st-failed", glyph: "failed" };
    case "released":
      return { word: "released", className: "st-queued", glyph: "queued" };
    case "preempted":
      return { word: "preempted", className: "st-blocked", glyph: "warn" };
    case "cancelled":
      return { word: "cancelled", className: "st-failed", glyph: "failed" };
    case "asked":
      return { word: "asked a question", className: "st-blocked", glyph: "ask" };
    case "awaited_subtasks":
      return { word: "waited for its subtasks", className: "st-blocked", glyph: "blocked" };
    case "quota_window":
      return { word: "usage limit reached", className: "st-blocked", glyph: "warn" };
    case "restored":
      return { word: "fenced by a restore", className: "st-blocked", glyph: "warn" };
    default:
      return outcome satisfies never;
  }
}

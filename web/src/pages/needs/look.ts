import type { NeedAction, NeedKind } from "../../api/types";
import type { GlyphName } from "../../ui/Glyph";

export const NEED_LOOK: Record<NeedKind, { word: string; className: string; glyph: GlyphName }> = {
  question: { word: "question", className: "st-blocked", glyph: "ask" },
  review: { word: "review", className: "st-review", glyph: "review" },
  merge_failed: { word: "merge failed", className: "st-failed", glyph: "failed" },
  unplaceable: { word: "unplaceable", className: "st-warn", glyph: "warn" },
  dead_letter: { word: "dead letter", className: "st-dead", glyph: "dead" },
  failed: { word: "failed", className: "st-failed", glyph: "failed" },
  ready_to_ship: { word: "ready to ship", className: "st-testing", glyph: "testing" },
  pull_request_abandoned: { word: "pull request", className: "st-warn", glyph: "warn" },
  stale_factory: { word: "stale factory", className: "st-failed", glyph: "failed" },
  credential_exhausted: { word: "no credit", className: "st-warn", glyph: "warn" },
  budget: { word: "budget", className: "st-warn", glyph: "warn" },
  alert: { word: "alert", className: "st-warn", glyph: "warn" },
};

/** A kind that a newer coordinator sends is shown as an alert. */
export function lookOf(kind: string) {
  return NEED_LOOK[kind as NeedKind] ?? { ...NEED_LOOK.alert, word: kind.replaceAll("_", " ") };
}

export const NEED_GROUPS = {
  questions: { title: "Questions", kinds: ["question"] },
  failures: { title: "Failures", kinds: ["failed", "dead_letter", "merge_failed", "pull_request_abandoned"] },
  ship: { title: "To ship", kinds: ["ready_to_ship", "review"] },
  fleet: { title: "Fleet", kinds: ["unplaceable", "stale_factory", "credential_exhausted", "budget", "alert"] },
} as const satisfies Record<string, { title: string; kinds: readonly NeedKind[] }>;
export type NeedGroup = keyof typeof NEED_GROUPS;

export function groupOf(kind: string): NeedGroup {
  const names = Object.keys(NEED_GROUPS) as NeedGroup[];
  return names.find((name) => NEED_GROUPS[name].kinds.some((one) => one === kind)) ?? "fleet";
}

/** The verb on a row's button. `…` when something is asked first. */
export const VERBS: Record<NeedAction, string> = {
  answer: "Answer",
  review: "Review",
  requeue: "Requeue…",
  redrive: "Requeue…",
  ship: "Ship…",
  cancel: "Cancel…",
  dismiss: "Dismiss…",
  reject: "Reject…",
  request_changes: "Request changes…",
  drain: "Drain…",
  prune: "Remove…",
  resume_credential: "Resume…",
};

import { alertSentence } from "../../lib/alerts";
import { reasonWords } from "../../lib/stages";
import type { Need, NeedKind } from "../../shell/needs";
import type { GlyphName } from "../../ui/Glyph";
import { Words } from "../../ui/Words";

export const NEED_LOOK: Record<NeedKind, { word: string; className: string; glyph: GlyphName }> = {
  question: { word: "question", className: "st-blocked", glyph: "ask" },
  review: { word: "review", className: "st-review", glyph: "review" },
  merge: { word: "merge failed", className: "st-failed", glyph: "failed" },
  dead: { word: "dead letter", className: "st-dead", glyph: "dead" },
  failed: { word: "failed", className: "st-failed", glyph: "failed" },
  ship: { word: "ready to ship", className: "st-testing", glyph: "testing" },
  alert: { word: "alert", className: "st-warn", glyph: "warn" },
};

/** The one sentence that says what is asked. */
export function NeedText({ need }: { need: Need }) {
  const { job, alert } = need;
  if (alert !== undefined) return <Words text={alertSentence(alert)} />;
  if (job === undefined) return null;
  switch (need.kind) {
    case "question":
      return <Words text={firstLine(job.question ?? "")} />;
    case "review":
      return "Waiting for a review";
    case "merge":
      return <Words text={firstLine(job.mergeFailure?.message ?? "the merge failed")} />;
    case "ship":
      return "Verified, ready to ship";
    case "dead":
    case "failed":
    case "alert":
      return <Words text={failureText(job.reason, job.message)} />;
    default:
      return need.kind satisfies never;
  }
}

export function failureText(
  reason: Parameters<typeof reasonWords>[0] | null | undefined,
  message: string | null | undefined,
): string {
  const why = reason == null ? "Failed" : reasonWords(reason);
  const words = why.charAt(0).toUpperCase() + why.slice(1);
  const line = firstLine(message ?? "");
  return line === "" ? words : `${words}: ${line}`;
}

export function firstLine(text: string): string {
  return (
    text
      .split("\n")
      .find((line) => line.trim() !== "")
      ?.trim() ?? ""
  );
}

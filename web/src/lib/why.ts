import type { JobView, Progress } from "../api/types";
import { plural, shortId, shortSha } from "./format";
import { reasonWords } from "./stages";

export type Why = { where: string | null; text: string; isWarn: boolean };

/** Where a job is and why, in one line. */
export function whyOf(job: JobView, progress: Progress | undefined): Why {
  const plain = (text: string, where: string | null = null): Why => ({ where, text, isWarn: false });
  const warn = (text: string): Why => ({ where: null, text, isWarn: true });
  switch (job.stage) {
    case "queued":
      if (job.waiting == null)
        return plain(job.targetFactoryId != null ? `offered to ${job.targetFactoryId}` : "waiting for a seat");
      return job.waiting.unplaceable === true ? warn(job.waiting.text) : plain(job.waiting.text);
    case "blocked":
      if (job.question != null) return warn(`asks: ${firstLine(job.question)}`);
      if (job.failedDependency != null) return warn(`dependency ${shortId(job.failedDependency)} failed`);
      return plain(job.waiting?.text ?? waitsFor(job));
    case "assigned":
    case "building":
      return plain(
        progress?.doing ?? (job.stage === "assigned" ? "preparing the worktree" : ""),
        job.holderFactoryId ?? null,
      );
    case "review":
      return plain("waiting for a review");
    case "testing":
      if (job.mergeFailure != null)
        return warn(
          `${job.mergeFailure.givenUp ? "merge failed" : "merge retried"}: ${firstLine(job.mergeFailure.message)}`,
        );
      if (job.errand != null)
        return plain(job.errand === "ship" ? "merging" : "updating its branch", job.holderFactoryId ?? null);
      return plain(job.verified === true ? "verified, ready to ship" : "completed, not verified");
    case "shipped":
      return plain(job.completedSha == null ? "merged" : `merged ${shortSha(job.completedSha)}`);
    case "failed":
    case "dead_letter":
      return warn(failureText(job.reason, job.message));
    default:
      return job.stage satisfies never;
  }
}

function waitsFor(job: JobView): string {
  const deps = job.deps ?? [];
  const [first] = deps;
  return deps.length === 1 && first !== undefined
    ? `depends on ${shortId(first)}`
    : `depends on ${plural(deps.length, "job")}`;
}

/** `verify failed: pnpm test exit 1`: the reason and the first line of the message. */
export function failureText(reason: JobView["reason"], message: string | null | undefined): string {
  const words = reason == null ? "failed" : reasonWords(reason);
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

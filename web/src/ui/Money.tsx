import type { JobView } from "../api/types";
import { money } from "../lib/format";

/** What a job has cost. Runs that reported no cost are said, not counted as zero. */
export function Cost({ spent, running }: { spent: JobView["spent"]; running?: number | null }) {
  if (running != null) {
    return <span title="so far, this run included">{money((spent?.costUsd ?? 0) + running)}</span>;
  }
  const usd = spent?.costUsd;
  const unknown = (spent?.runsWithoutCost ?? 0) + (spent?.interruptedWithoutCost ?? 0);
  if (usd === null || usd === undefined)
    return <span title={unknown > 0 ? "the engine reported no cost" : undefined}>–</span>;
  return (
    <span
      title={unknown > 0 ? `${unknown} runs reported no cost` : undefined}
    >{`${unknown > 0 ? "≥ " : ""}${money(usd)}`}</span>
  );
}

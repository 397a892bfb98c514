import type { BudgetView, MoneyWait } from "../../api/types";
import { clockShort, money } from "../../lib/format";

export const PERIOD_WORDS = { day: "per day", month: "per month", total: "in total" } as const;

export const RUNNING_WORDS = {
  finish: "Running jobs finish.",
  release: "Running jobs save their work and return to the queue.",
  stop: "Running jobs are stopped and return to the queue.",
} as const;

const NEARLY_PERCENT = 80;

export function isNearlySpent(budget: BudgetView): boolean {
  return budget.usedPercent != null && budget.usedPercent >= NEARLY_PERCENT;
}

/** `18 Nov, 14:32`, in UTC. */
export function dayAndTime(at: string): string {
  const date = new Date(at);
  const day = date.toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
  return `${day}, ${clockShort(at)}`;
}

/** Where the spending leads, in one line. */
export function projectionWords(budget: BudgetView): string {
  const { usdPerHour, atEndUsd, reachedAt } = budget.projection;
  if (budget.spentUsd === 0 && usdPerHour === 0) return "nothing spent in this period";
  if (!budget.paused && budget.waiting != null) {
    return budget.until == null
      ? "waits for more money"
      : `waits until ${dayAndTime(budget.until)} UTC or for more money`;
  }
  if (reachedAt != null && (budget.leftUsd ?? 0) > 0) return `reaches the ceiling ${dayAndTime(reachedAt)} UTC`;
  if (budget.usedPercent != null && budget.usedPercent >= 100) return "the ceiling is reached";
  if (atEndUsd != null && budget.until != null) return `${money(atEndUsd)} by ${dayAndTime(budget.until)} UTC`;
  return `${money(usdPerHour)} per hour`;
}

/** Why the jobs of a product wait for money. */
export function waitWords({ ceilingUsd, spentUsd, reservedUsd, needsUsd, period, mayBeReturned }: MoneyWait): string {
  const ceiling = `${money(ceilingUsd)} ${PERIOD_WORDS[period]}`;
  const left = money(Math.max(0, ceilingUsd - spentUsd - reservedUsd));
  const why =
    needsUsd == null
      ? `${money(spentUsd)} of ${ceiling} is spent`
      : `the next one needs ${money(needsUsd)}, and ${left} of ${ceiling} is left`;
  const returned = mayBeReturned ? ". Running jobs may return what they do not spend" : "";
  return `The jobs of this product wait for money: ${why}${returned}`;
}

/** A word and a colour for a product's money. */
export function BudgetState({ budget }: { budget: BudgetView }) {
  const [word, look] = stateOf(budget);
  return <span className={`tr ${look}`}>{word}</span>;
}

function stateOf(budget: BudgetView): [string, string] {
  if (budget.paused) return ["paused", "is-warn"];
  if (budget.waiting != null) return ["waits for money", "is-warn"];
  if (isNearlySpent(budget)) return ["nearly spent", "is-warn"];
  return ["active", "dim"];
}

import type { Alert, AlertCode } from "../api/types";

const BAD: ReadonlySet<AlertCode> = new Set([
  "no_live_factory",
  "stale_factory",
  "pool_not_starting",
  "dead_letter",
  "merge_failed",
  "disk_full",
  "budget_paused",
  "store_damaged",
  "unreadable_document",
  "credential_exhausted",
]);

export function isBad(code: AlertCode): boolean {
  return BAD.has(code);
}

/** Alerts about single jobs that wait for a person: Needs me lists the jobs themselves. */
const IN_NEEDS_ME: ReadonlySet<AlertCode> = new Set([
  "question_waiting",
  "review_waiting",
  "dead_letter",
  "jobs_failed",
  "merge_failed",
]);

export function isFleetAlert(alert: Alert): boolean {
  return !IN_NEEDS_ME.has(alert.code);
}

/** Worst first, then oldest. */
export function sortAlerts(alerts: readonly Alert[]): Alert[] {
  return [...alerts].sort((a, b) => Number(isBad(b.code)) - Number(isBad(a.code)) || a.since.localeCompare(b.since));
}

/** The sentence without the job's title in front, when the row shows the title itself. */
export function alertSentence(alert: Alert): string {
  return alert.message.charAt(0).toUpperCase() + alert.message.slice(1);
}

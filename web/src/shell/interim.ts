// Until the coordinator serves `GET /needs-me`: the same list from alerts and jobs. Removed with it.

import { client, unwrap } from "../api/client";
import type { NeedAction, NeedItem, NeedKind, NeedList } from "../api/contract";
import { failureText, firstLine } from "../lib/why";

const PEOPLE = new Set([
  "no_live_factory",
  "stale_factory",
  "unresponsive_factory",
  "remote_unavailable",
  "disk_full",
  "credential_exhausted",
  "unplaceable",
]);
const ORDER: NeedKind[] = [
  "question",
  "review",
  "merge_failed",
  "unplaceable",
  "stale_factory",
  "credential_exhausted",
  "alert",
  "pull_request_abandoned",
  "dead_letter",
  "failed",
  "ready_to_ship",
];

export async function interimNeeds(product: string | undefined): Promise<NeedList> {
  const stage = "blocked,review,testing,failed,dead_letter";
  const [jobs, alerts, products] = await Promise.all([
    unwrap(client.GET("/api/fleet/jobs", { params: { query: { stage, product, limit: 200 } } })),
    unwrap(client.GET("/api/fleet/alerts")),
    unwrap(client.GET("/api/fleet/products")),
  ]);
  const auto = new Set(products.items.filter((one) => one.autoShip).map((one) => one.id));
  const items: NeedItem[] = [];
  for (const job of jobs.items) {
    const add = (kind: NeedKind, text: string, remedy: string, actions: NeedAction[]) =>
      items.push({
        key: `${kind}:${job.id}`,
        kind,
        title: job.title,
        text,
        remedy,
        at: job.updatedAt,
        jobId: job.id,
        productId: job.productId,
        costUsd: job.spent?.costUsd,
        actions,
      });
    if (job.question != null && job.stage === "blocked")
      add("question", firstLine(job.question), "answer it; the job continues from its checkpoint", [
        "answer",
        "cancel",
      ]);
    else if (job.stage === "testing" && job.mergeFailure?.givenUp === true)
      add("merge_failed", firstLine(job.mergeFailure.message), "requeue it to rebase its work", ["requeue", "reject"]);
    else if (job.stage === "testing" && job.errand == null && !auto.has(job.productId))
      add("ready_to_ship", "verified, ready to ship", "ship it, or request changes", [
        "ship",
        "request_changes",
        "reject",
      ]);
    else if (job.stage === "dead_letter" && job.dismissed !== true)
      add("dead_letter", failureText(job.reason, job.message), "fix the cause, then requeue it", [
        "redrive",
        "dismiss",
      ]);
    else if (job.stage === "failed" && job.reason !== "cancelled")
      add("failed", failureText(job.reason, job.message), "fix the cause, then requeue it", ["requeue", "dismiss"]);
  }
  for (const alert of alerts.items) {
    if (!PEOPLE.has(alert.code)) continue;
    const kind =
      alert.code === "unplaceable" || alert.code === "stale_factory" || alert.code === "credential_exhausted"
        ? alert.code
        : "alert";
    items.push({
      key: `${alert.code}:${alert.jobId ?? alert.factoryId ?? ""}`,
      kind,
      title: alert.jobTitle ?? alert.factoryId ?? alert.code,
      text: alert.message,
      remedy: "",
      at: alert.since,
      jobId: alert.jobId,
      factoryId: alert.factoryId,
      actions: [],
    });
  }
  items.sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind) || a.at.localeCompare(b.at));
  return { items, total: items.length };
}

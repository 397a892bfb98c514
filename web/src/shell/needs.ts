// What waits for a person. Until the coordinator offers `GET /needs-me`: alerts, questions, failures, finished work to ship.

import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { alertsQuery, jobsPanelQuery, productsQuery } from "../api/queries";
import type { Alert, AlertCode, JobView, Product } from "../api/types";

export type NeedKind = "question" | "review" | "merge" | "dead" | "failed" | "ship" | "alert";
export type Need = { key: string; kind: NeedKind; at: string; job?: JobView; alert?: Alert };

/** Conditions of the fleet that only people can end. The rest of the alerts is shown on the Fleet page alone. */
const FOR_PEOPLE: ReadonlySet<AlertCode> = new Set([
  "unplaceable",
  "no_live_factory",
  "stale_factory",
  "unresponsive_factory",
  "changes_exhausted",
  "remote_unavailable",
  "dependency_failed",
  "disk_full",
  "credential_exhausted",
  "budget_warning",
  "budget_paused",
  "store_damaged",
  "unreadable_document",
]);

const ORDER: Record<NeedKind, number> = { question: 0, review: 1, merge: 2, alert: 3, dead: 4, failed: 5, ship: 6 };
const FAILED_FOR_MS = 24 * 3_600_000;

function kindOf(job: JobView, products: ReadonlyMap<string, Product>, now: number): NeedKind | null {
  switch (job.stage) {
    case "blocked":
      return job.question != null ? "question" : null;
    case "review":
      return "review";
    case "testing":
      if (job.mergeFailure?.givenUp === true) return "merge";
      return job.errand == null && products.get(job.productId)?.autoShip !== true ? "ship" : null;
    case "failed":
      return job.reason !== "cancelled" && now - Date.parse(job.updatedAt) < FAILED_FOR_MS ? "failed" : null;
    case "dead_letter":
      return job.dismissed === true ? null : "dead";
    case "queued":
    case "assigned":
    case "building":
    case "shipped":
      return null;
    default:
      return job.stage satisfies never;
  }
}

export function needsOf(
  jobs: readonly JobView[],
  alerts: readonly Alert[],
  products: readonly Product[],
  now: number,
): Need[] {
  const byId = new Map(products.map((product) => [product.id, product]));
  const needs: Need[] = [];
  const covered = new Set<string>();
  for (const job of jobs) {
    const kind = kindOf(job, byId, now);
    if (kind === null) continue;
    covered.add(job.id);
    needs.push({ key: job.id, kind, at: job.updatedAt, job });
  }
  for (const alert of alerts) {
    if (!FOR_PEOPLE.has(alert.code) || (alert.jobId != null && covered.has(alert.jobId))) continue;
    needs.push({
      key: `${alert.code}:${alert.factoryId ?? alert.jobId ?? alert.message}`,
      kind: "alert",
      at: alert.since,
      alert,
    });
  }
  return needs.sort((a, b) => ORDER[a.kind] - ORDER[b.kind] || a.at.localeCompare(b.at));
}

const STAGES = ["blocked", "review", "testing", "failed", "dead_letter"] as const;

export function useNeeds(product: string | undefined) {
  const alerts = useQuery(alertsQuery);
  const jobs = useQuery(jobsPanelQuery(STAGES, product, 200));
  const products = useQuery(productsQuery);
  const needs = useMemo(() => {
    if (jobs.data === undefined || alerts.data === undefined || products.data === undefined) return undefined;
    return needsOf(jobs.data.items, alerts.data.items, products.data.items, Date.now());
  }, [jobs.data, alerts.data, products.data]);
  return {
    needs,
    error: jobs.error ?? alerts.error ?? products.error,
    hasMore: jobs.data?.next != null,
    refetch: () => Promise.all([jobs.refetch(), alerts.refetch()]),
  };
}

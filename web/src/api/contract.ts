// Parts of the API that the OpenAPI document does not describe yet. Removed when it does.

import { toApiError, unreachable } from "./problem";
import { sessionHeaders } from "./session";

export type NeedKind =
  | "question"
  | "review"
  | "merge_failed"
  | "unplaceable"
  | "dead_letter"
  | "failed"
  | "ready_to_ship"
  | "pull_request_abandoned"
  | "stale_factory"
  | "credential_exhausted"
  | "alert";

export type NeedAction =
  | "answer"
  | "requeue"
  | "ship"
  | "cancel"
  | "dismiss"
  | "redrive"
  | "reject"
  | "request_changes"
  | "drain"
  | "prune"
  | "resume_credential";

export type NeedItem = {
  key: string;
  kind: NeedKind;
  title: string;
  text: string;
  remedy: string;
  at: string;
  jobId?: string | null;
  factoryId?: string | null;
  productId?: string | null;
  credential?: string | null;
  costUsd?: number | null;
  actions: NeedAction[];
};

export type NeedList = { items: NeedItem[]; total: number; next?: string | null };

export type HistoryPoint = {
  at: string;
  queued: number;
  building: number;
  seatsUsed: number;
  seatsTotal: number;
  lagMs: { p50: number; p99: number } | null;
  storeOps: { read: number; write: number };
  claims: number;
};

export type MetricsHistory = { stepSeconds: number; points: HistoryPoint[] };

export type SessionView = {
  principal: { name: string; role: string; products?: string[] };
  coordinator: { name: string; version: string };
  expiresAt?: string | null;
};

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await fetch(`/api/fleet${path}`, { headers: sessionHeaders(), signal }).catch((error) => {
    if (signal?.aborted === true) throw error;
    throw unreachable();
  });
  const body: unknown = await response.json().catch(() => null);
  if (!response.ok) throw toApiError(response, body);
  return body as T;
}

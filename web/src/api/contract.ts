// Parts of the API that the OpenAPI document does not describe yet. Removed when it does.

import { toApiError, unreachable } from "./problem";
import { sessionHeaders } from "./session";
import type { StageName } from "./types";

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

export type JobCounts = { stages: Partial<Record<StageName, number>>; waiting?: { unplaceable?: number } };

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await fetch(`/api/fleet${path}`, { headers: sessionHeaders(), signal }).catch((error) => {
    if (signal?.aborted === true) throw error;
    throw unreachable();
  });
  const body: unknown = await response.json().catch(() => null);
  if (!response.ok) throw toApiError(response, body);
  return body as T;
}

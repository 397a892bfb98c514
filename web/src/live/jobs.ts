// Jobs outside React: a map by id. Rows subscribe to one id; changes are applied once per animation frame.

import { useSyncExternalStore } from "react";
import { client, unwrap } from "../api/client";
import type { JobEvent, JobView, Progress } from "../api/types";

type Notify = () => void;

const REFRESH_AFTER_MS = 250;
const REFRESH_PARALLEL = 4;

const jobs = new Map<string, JobView>();
const progress = new Map<string, Progress>();
const listeners = new Map<string, Set<Notify>>();
const dirty = new Set<string>();
let running = 0;
let pendingTimer: ReturnType<typeof setTimeout> | undefined;

function notify(id: string) {
  for (const listener of listeners.get(id) ?? []) listener();
}

function subscribe(id: string, listener: Notify): () => void {
  const set = listeners.get(id) ?? new Set();
  set.add(listener);
  listeners.set(id, set);
  if (dirty.has(id)) schedule();
  return () => {
    set.delete(listener);
    if (set.size === 0) listeners.delete(id);
  };
}

export function getJob(id: string): JobView | undefined {
  return jobs.get(id);
}

/** Stores what the coordinator answered, unless an event has already told more. */
export function upsertJobs(views: readonly JobView[]) {
  for (const view of views) {
    const known = jobs.get(view.id);
    if (known !== undefined && known.seq > view.seq) continue;
    jobs.set(view.id, view);
    dirty.delete(view.id);
    notify(view.id);
  }
}

/** Applies an event to a known job: its stage now, the rest as soon as the job is read again. */
export function applyEvent(event: JobEvent) {
  const id = event.jobId;
  if (event.stage !== "building" && progress.delete(id)) notify(id);
  const known = jobs.get(id);
  if (known === undefined || known.seq >= event.seq) return;
  jobs.set(id, { ...known, stage: event.stage, seq: event.seq, updatedAt: event.at });
  dirty.add(id);
  notify(id);
  schedule();
}

export function applyProgress(id: string, value: Progress) {
  progress.set(id, value);
  notify(id);
}

/** Marks every job as possibly old, after a reset. */
export function markAllDirty() {
  for (const id of jobs.keys()) dirty.add(id);
  schedule();
}

/** Only rows on screen are read again: a list of 100,000 costs what is visible. */
function schedule() {
  pendingTimer ??= setTimeout(() => {
    pendingTimer = undefined;
    for (const id of dirty) {
      if (running >= REFRESH_PARALLEL) return;
      if (listeners.has(id)) void refresh(id);
    }
  }, REFRESH_AFTER_MS);
}

async function refresh(id: string) {
  dirty.delete(id);
  running += 1;
  try {
    upsertJobs([await unwrap(client.GET("/api/fleet/jobs/{id}", { params: { path: { id } } }))]);
  } catch {
    // The row keeps the stage that the event told.
  } finally {
    running -= 1;
    if (dirty.size > 0) schedule();
  }
}

export function useJob(id: string): JobView | undefined {
  return useSyncExternalStore(
    (listener) => subscribe(id, listener),
    () => jobs.get(id),
  );
}

export function useProgress(id: string): Progress | undefined {
  return useSyncExternalStore(
    (listener) => subscribe(id, listener),
    () => progress.get(id),
  );
}

export function resetJobsForTest() {
  jobs.clear();
  progress.clear();
  listeners.clear();
  dirty.clear();
}

// Turns frames of the stream into changes of the job map and of cached answers.

import type { QueryClient } from "@tanstack/react-query";
import type { JobEvent, ProgressEvent } from "../api/types";
import { perFrame, throttled } from "./batch";
import { applyEvent, applyProgress, markAllDirty } from "./jobs";
import type { Frame } from "./stream";

/** Answers that a job event may change and no other frame announces. They are read again only while shown. */
const AFTER_JOB_EVENT = ["jobs", "dead-letters", "counts", "factories", "pools", "budgets", "burndown"] as const;
/** Events after which a job may need a person, or no longer does. The frame `needs` only comes when their number changes. */
const CHANGES_NEEDS: ReadonlySet<JobEvent["kind"]> = new Set([
  "asked",
  "completed",
  "promoted",
  "errand_failed",
  "ship_requested",
  "shipped",
  "failed",
  "dead_lettered",
  "requeued",
  "cancelled",
  "changes_requested",
  "voted",
  "review_requested",
  "rejected",
  "dismissed",
]);
const PANELS_EVERY_MS = 1_500;
const HISTORY_EVERY_MS = 10_000;
const JOB_EVERY_MS = 400;

/** Frames that say what changed, without the new value. */
const BY_EVENT: Record<string, readonly string[]> = {
  factory: ["factories", "pools"],
  alert: ["alerts", "credentials", "budgets", "pools"],
  needs: ["needs"],
};

export type ApplyOptions = {
  queries: QueryClient;
  onJobEvent: (event: JobEvent) => void;
  onReset: () => void;
  onHello: (hello: Hello) => void;
};

export type Hello = { build?: string; version?: string };

export function frameApplier({ queries, onJobEvent, onReset, onHello }: ApplyOptions): (frame: Frame) => void {
  const refreshPanels = throttled(PANELS_EVERY_MS, (keys) => {
    for (const key of keys) void queries.invalidateQueries({ queryKey: [key] });
  });
  const refreshHistory = throttled(HISTORY_EVERY_MS, (keys) => {
    for (const key of keys) void queries.invalidateQueries({ queryKey: [key] });
  });
  const refreshJob = throttled(JOB_EVERY_MS, (ids) => {
    for (const id of ids) {
      void queries.invalidateQueries({ queryKey: ["job", id], predicate: (query) => query.queryKey[2] !== "events" });
    }
  });

  // A page that shows other jobs as well: the tree below its job, or the graph around it.
  const refreshTrees = throttled(PANELS_EVERY_MS, (ids) => {
    const changed = new Set(ids);
    void queries.invalidateQueries({ queryKey: ["job"], predicate: (query) => showsAny(query.state.data, changed) });
  });

  function applyJobEvent(event: JobEvent) {
    applyEvent(event);
    queries.setQueryData<JobEvent[]>(["job", event.jobId, "events"], (known) => append(known, event));
    refreshJob(event.jobId);
    refreshTrees(event.jobId);
    for (const key of AFTER_JOB_EVENT) refreshPanels(key);
    if (CHANGES_NEEDS.has(event.kind)) refreshPanels("needs");
    onJobEvent(event);
  }

  function onFrame({ event, data: text }: Frame) {
    const data = parse(text);
    if (event === "reset") {
      markAllDirty();
      void queries.invalidateQueries();
      onReset();
      return;
    }
    if (data === null) return;
    switch (event) {
      case "hello":
        onHello(data as Hello);
        break;
      case "job":
        applyJobEvent(data as JobEvent);
        break;
      case "progress": {
        const { jobId, progress } = data as ProgressEvent;
        applyProgress(jobId, progress);
        // What a running job reports as its cost counts at once.
        if (progress.costUsd != null) {
          refreshPanels("budgets");
          refreshPanels("burndown");
        }
        break;
      }
      case "flags":
        queries.setQueryData(["flags"], data);
        refreshPanels("divergence");
        break;
      case "metrics":
        // The frame is a part of the answer: keep what it leaves out.
        queries.setQueryData(["metrics"], (known: object | undefined) => known && { ...known, ...(data as object) });
        refreshHistory("history");
        refreshHistory("divergence");
        break;
      default:
        for (const key of BY_EVENT[event] ?? []) refreshPanels(key);
    }
  }

  return perFrame<Frame>((frames) => {
    for (const frame of frames) onFrame(frame);
  });
}

/** Whether an answer shows one of these jobs beside its own. A summary of a tree does not name all of its jobs. */
export function showsAny(data: unknown, ids: ReadonlySet<string>): boolean {
  if (data === null || typeof data !== "object") return false;
  if ("tree" in data) return data.tree != null;
  return "nodes" in data && (data.nodes as { id: string }[]).some((node) => ids.has(node.id));
}

export function append(known: JobEvent[] | undefined, event: JobEvent): JobEvent[] | undefined {
  if (known === undefined || known.some((other) => other.seq === event.seq)) return known;
  return [...known, event].sort((a, b) => a.seq - b.seq);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

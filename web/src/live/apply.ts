// Turns frames of the stream into changes of the job map and of cached answers.

import type { QueryClient } from "@tanstack/react-query";
import type { JobEvent, ProgressEvent } from "../api/types";
import { perFrame, throttled } from "./batch";
import { applyEvent, applyProgress, markAllDirty } from "./jobs";
import type { Frame } from "./stream";

/** Answers that a job event may change. They are read again only while a component shows them. */
const AFTER_JOB_EVENT = ["jobs", "metrics", "alerts", "factories", "dead-letters"] as const;
const PANELS_EVERY_MS = 1_500;
const JOB_EVERY_MS = 400;

/** Events that a later coordinator sends for what has no event today. */
const BY_EVENT: Record<string, string> = {
  factory: "factories",
  alert: "alerts",
  flags: "flags",
  budget: "budgets",
  credential: "credentials",
  metrics: "metrics",
};

export type ApplyOptions = {
  queries: QueryClient;
  onSubmitted: (event: JobEvent) => void;
  onReset: () => void;
};

export function frameApplier({ queries, onSubmitted, onReset }: ApplyOptions): (frame: Frame) => void {
  const refreshPanels = throttled(PANELS_EVERY_MS, (keys) => {
    for (const key of keys) void queries.invalidateQueries({ queryKey: [key] });
  });
  const refreshJob = throttled(JOB_EVERY_MS, (ids) => {
    for (const id of ids) {
      void queries.invalidateQueries({ queryKey: ["job", id], predicate: (query) => query.queryKey[2] !== "events" });
    }
  });

  function onJobEvent(event: JobEvent) {
    applyEvent(event);
    queries.setQueryData<JobEvent[]>(["job", event.jobId, "events"], (known) => append(known, event));
    refreshJob(event.jobId);
    for (const key of AFTER_JOB_EVENT) refreshPanels(key);
    if (event.kind === "submitted") onSubmitted(event);
  }

  return perFrame<Frame>((frames) => {
    for (const frame of frames) {
      if (frame.event === "hello") continue;
      if (frame.event === "reset") {
        markAllDirty();
        void queries.invalidateQueries();
        onReset();
        continue;
      }
      const data = parse(frame.data);
      if (data === null) continue;
      if (frame.event === "job") onJobEvent(data as JobEvent);
      else if (frame.event === "progress") {
        const { jobId, progress } = data as ProgressEvent;
        applyProgress(jobId, progress);
      } else {
        const key = BY_EVENT[frame.event];
        if (key !== undefined) refreshPanels(key);
      }
    }
  });
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

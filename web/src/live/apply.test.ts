import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { JobEvent, JobView } from "../api/types";
import { append, frameApplier, showsAny } from "./apply";
import { getJob, resetJobsForTest, upsertJobs } from "./jobs";

const job = { id: "a", title: "T", stage: "queued", seq: 1, updatedAt: "2026-01-01T00:00:00Z" } as JobView;
const event = (seq: number, stage: JobView["stage"], kind: JobEvent["kind"] = "started") =>
  ({
    jobId: "a",
    productId: "p",
    seq,
    stage,
    kind,
    at: `2026-01-01T00:00:0${seq}Z`,
    epoch: 1,
    by: { who: "coordinator" },
  }) as JobEvent;
const frame = (name: string, data: unknown) => ({ id: "1", event: name, data: JSON.stringify(data) });

describe("answers that show other jobs", () => {
  it("are read again when a shown job changes", () => {
    const changed = new Set(["b"]);
    expect(showsAny({ nodes: [{ id: "a" }, { id: "b" }] }, changed)).toBe(true);
    expect(showsAny({ nodes: [{ id: "a" }] }, changed)).toBe(false);
    expect(showsAny({ id: "a", tree: { jobs: 2 } }, changed)).toBe(true);
    expect(showsAny({ id: "a" }, changed)).toBe(false);
    expect(showsAny(undefined, changed)).toBe(false);
  });
});

describe("frames of the stream", () => {
  let flush: FrameRequestCallback[];
  const queries = new QueryClient();
  beforeEach(() => {
    flush = [];
    vi.useFakeTimers();
    vi.stubGlobal("requestAnimationFrame", (run: FrameRequestCallback) => flush.push(run));
    upsertJobs([job]);
  });
  afterEach(() => {
    resetJobsForTest();
    queries.clear();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
  const applier = (onReset = () => {}, onJobEvent = () => {}) =>
    frameApplier({ queries, onReset, onJobEvent, onHello: () => {} });

  it("applies a burst once per animation frame", () => {
    const apply = applier();
    apply(frame("job", event(2, "assigned")));
    apply(frame("job", event(3, "building")));
    expect(getJob("a")?.stage).toBe("queued");
    expect(flush).toHaveLength(1);
    flush[0]?.(0);
    expect(getJob("a")).toMatchObject({ stage: "building", seq: 3 });
  });

  it("ignores an event that is older than the job", () => {
    upsertJobs([{ ...job, stage: "shipped", seq: 9 }]);
    applier()(frame("job", event(4, "building")));
    flush[0]?.(0);
    expect(getJob("a")?.stage).toBe("shipped");
  });

  it("does not let a slow answer overwrite a newer event", () => {
    applier()(frame("job", event(5, "testing")));
    flush[0]?.(0);
    upsertJobs([{ ...job, seq: 4, stage: "building" }]);
    expect(getJob("a")?.stage).toBe("testing");
  });

  it("survives a frame that is not JSON", () => {
    applier()({ id: null, event: "job", data: "{" });
    expect(() => flush[0]?.(0)).not.toThrow();
  });

  it("reports a reset and a new job", () => {
    const onReset = vi.fn();
    const onJobEvent = vi.fn();
    const apply = applier(onReset, onJobEvent);
    apply(frame("reset", { reason: "behind" }));
    apply(frame("job", event(1, "queued", "submitted")));
    flush[0]?.(0);
    expect(onReset).toHaveBeenCalledOnce();
    expect(onJobEvent).toHaveBeenCalledOnce();
  });

  it("takes flags and metrics from their frames without a request", () => {
    queries.setQueryData(["metrics"], { seats: 4, depth: 0 });
    const apply = applier();
    apply(frame("flags", { mode: "poll" }));
    apply(frame("metrics", { depth: 3 }));
    flush[0]?.(0);
    expect(queries.getQueryData(["flags"])).toEqual({ mode: "poll" });
    expect(queries.getQueryData(["metrics"])).toEqual({ seats: 4, depth: 3 });
  });

  it("appends an event to a timeline once and in order", () => {
    const known = [event(1, "queued"), event(3, "building")];
    expect(append(known, event(2, "assigned"))?.map((e) => e.seq)).toEqual([1, 2, 3]);
    expect(append(known, event(3, "building"))).toBe(known);
    expect(append(undefined, event(3, "building"))).toBeUndefined();
  });
});

import { describe, expect, it } from "vitest";
import type { MetricsHistory } from "../api/types";
import { knownMinutes, longestIdle, perMinute, utilisationOf } from "./history";

const now = Date.parse("2026-11-18T12:10:30Z");
const point = (at: string, read: number, write: number) => ({
  at,
  queued: 0,
  building: 0,
  seatsUsed: 0,
  seatsTotal: 1,
  lagMs: null,
  storeOps: { read, write },
  claims: 0,
});
const history: MetricsHistory = {
  stepSeconds: 10,
  points: [
    point("2026-11-18T12:03:00Z", 1, 2),
    point("2026-11-18T12:03:50Z", 1, 0),
    point("2026-11-18T12:10:10Z", 0, 5),
  ],
};

describe("the history of store operations", () => {
  it("adds the steps of a minute and knows nothing of the time before the first", () => {
    const minutes = knownMinutes(history, perMinute(history, now, 30));
    expect(minutes.map((minute) => minute.reads + minute.writes)).toEqual([4, 0, 0, 0, 0, 0, 0, 5]);
    expect(knownMinutes({ stepSeconds: 10, points: [] }, minutes)).toEqual([]);
  });
  it("finds the longest idle stretch", () => {
    const minutes = knownMinutes(history, perMinute(history, now, 30));
    expect(longestIdle(minutes)).toEqual({ from: 1, to: 7 });
    expect(longestIdle(minutes, 7)).toBeNull();
  });
});

describe("the utilisation", () => {
  it("is weighed by time", () => {
    const of = (at: string, seatsUsed: number) => ({ ...point(at, 0, 0), seatsUsed, seatsTotal: 8 });
    const points = [of("2026-11-18T12:00:00Z", 0), of("2026-11-18T12:07:30Z", 8)];
    expect(utilisationOf({ stepSeconds: 10, points }, Date.parse("2026-11-18T12:10:00Z"))).toBe(25);
    expect(utilisationOf({ stepSeconds: 10, points: [] }, now)).toBeNull();
  });
});

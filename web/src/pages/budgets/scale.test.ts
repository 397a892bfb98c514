import { describe, expect, it } from "vitest";
import type { BurnDown } from "../../api/types";
import { axis, frame, niceTop, place } from "./scale";

const BOX = { left: 0, right: 100, top: 0, bottom: 100 };
const NOON = "2026-11-18T12:00:00.000Z";

function chart(part: Partial<BurnDown>): BurnDown {
  return {
    productId: "notes",
    period: "day",
    from: "2026-11-18T00:00:00.000Z",
    until: "2026-11-19T00:00:00.000Z",
    points: [
      { at: "2026-11-18T00:00:00.000Z", spentUsd: 0 },
      { at: NOON, spentUsd: 0 },
    ],
    projection: { usdPerHour: 0 },
    pauses: [],
    ...part,
  };
}

describe("the chart of a budget", () => {
  it("has an axis from 0 to 1 while nothing is spent", () => {
    const view = frame(chart({}));
    expect(axis(view.top)).toEqual([0, 0.25, 0.5, 0.75, 1]);
    expect(view.projected).toBeNull();
    expect(place(view, BOX, view.now, 0)).toEqual({ x: 50, y: 100 });
  });

  it("draws without a ceiling, an end or a first hour", () => {
    const view = frame(chart({ until: undefined, from: NOON, points: [{ at: NOON, spentUsd: 3 }], period: "total" }));
    const { x, y } = place(view, BOX, view.now, 3);
    expect(Number.isFinite(x) && Number.isFinite(y)).toBe(true);
    expect(view.until).toBeGreaterThan(view.from);
  });

  it("ends the projection where the ceiling is reached", () => {
    const points = [{ at: NOON, spentUsd: 6 }];
    const projection = { usdPerHour: 0.5, atEndUsd: 12, reachedAt: "2026-11-18T20:00:00.000Z" };
    const view = frame(chart({ ceilingUsd: 10, points, projection }));
    expect(view.projected).toEqual({ at: Date.parse("2026-11-18T20:00:00.000Z"), usd: 10 });
  });

  it("never divides by nothing", () => {
    for (const value of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) expect(niceTop(value)).toBe(1);
    expect(niceTop(368)).toBe(400);
  });
});

import { describe, expect, it } from "vitest";
import { ticksOf } from "./Gantt";

describe("the ticks of a timeline", () => {
  it("are few enough for its width", () => {
    const from = Date.parse("2026-11-18T20:47:31Z");
    for (const seconds of [7, 44, 61, 200, 3_700, 90_000]) {
      expect(ticksOf(from, from + seconds * 1_000).length).toBeLessThanOrEqual(6);
      expect(ticksOf(from, from + seconds * 1_000, 2).length).toBeLessThanOrEqual(3);
    }
  });
});

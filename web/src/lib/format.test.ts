import { describe, expect, it } from "vitest";
import { bytes, compact, duration, exact, middleId, money, plural, shortId, took } from "./format";

describe("format", () => {
  it("writes durations with at most two units", () => {
    expect([4e3, 38 * 6e4, 125 * 6e4, 76 * 36e5, -5].map(duration)).toEqual(["4s", "38m", "2h 05m", "3d 4h", "0s"]);
  });
  it("writes measured times", () => {
    expect([48, 1230, 65_000].map(took)).toEqual(["48 ms", "1.2 s", "1m"]);
  });
  it("writes money with two places and counts with commas", () => {
    expect([money(2.1), money(1234.5), compact(1_900_000), compact(38_000)]).toEqual([
      "$2.10",
      "$1,234.50",
      "1.9M",
      "38k",
    ]);
  });
  it("writes bytes, plurals, ids and exact times", () => {
    expect([bytes(900), bytes(54_685_134_848), plural(1, "job"), plural(2, "factory", "factories")]).toEqual([
      "900 B",
      "55 GB",
      "1 job",
      "2 factories",
    ]);
    expect(shortId("01a1e3c2-0000-7000-8000-00004f1c6894")).toBe("f1c6894".slice(-7));
    expect(middleId("01a1e3c2-0000-7000-8000-00004f1c6894")).toBe("01a1e3c2…4f1c6894");
    expect(exact("2026-11-18T01:02:03.9Z")).toBe("2026-11-18 01:02:03 UTC");
  });
});

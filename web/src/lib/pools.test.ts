import { expect, test } from "vitest";
import type { PoolView } from "../api/types";
import { poolState } from "./pools";

function pool(scale: Partial<PoolView["scale"]>, broken = false): PoolView {
  const none = { wanted: 0, live: 0, starting: 0, overdue: false, waiting: 0, used: 0 };
  return {
    name: "linux",
    max: 3,
    broken,
    scale: { pool: "linux", max: 3, startWithinMs: 300_000, members: [], ...none, ...scale },
  };
}

// [F9]
test("a pool says what it does", () => {
  expect(poolState(pool({})).word).toBe("idle, no factory runs");
  expect(poolState(pool({ wanted: 2, starting: 2 })).word).toBe("starting 2 factories");
  expect(poolState(pool({ wanted: 1, starting: 1 })).word).toBe("starting 1 factory");
  expect(poolState(pool({ wanted: 1, live: 1 })).word).toBe("running");
  expect(poolState(pool({ starting: 1, overdue: true })).word).toBe("no factory has joined");
  expect(poolState(pool({ live: 1 }, true)).word).toBe("its factories do not fit");
});

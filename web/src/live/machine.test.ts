import { describe, expect, it } from "vitest";
import { backoff, type Input, initialState, isCurrent, isQuiet, type LiveState, step } from "./machine";

function run(inputs: [at: number, input: Input][], from: LiveState = initialState(0)): LiveState {
  return inputs.reduce((state, [at, input]) => step(state, input, at), from);
}
const lost = (nextAttemptAt = 0): Input => ({ kind: "lost", nextAttemptAt });
const tick: Input = { kind: "tick" };
const opened: Input = { kind: "opened" };

describe("connection states", () => {
  it("goes live when the stream opens", () => {
    expect(run([[5, opened]])).toMatchObject({ phase: "live", asOf: 5, attempts: 0, brokenSince: null });
  });

  it("shows a short gap by the dot only, then says reconnecting", () => {
    const state = run([
      [0, opened],
      [1000, lost()],
    ]);
    expect(state.phase).toBe("reconnecting");
    expect(isQuiet(state, 3900)).toBe(true);
    expect(isQuiet(state, 4000)).toBe(false);
  });

  it("is down ten seconds after the stream was lost", () => {
    expect(
      run([
        [0, opened],
        [1000, lost()],
        [10_999, tick],
      ]).phase,
    ).toBe("reconnecting");
    expect(
      run([
        [0, opened],
        [1000, lost()],
        [11_000, tick],
      ]).phase,
    ).toBe("down");
  });

  it("counts from the first loss, not from the last attempt", () => {
    const state = run([
      [0, opened],
      [1000, lost()],
      [9000, lost()],
      [11_000, tick],
    ]);
    expect(state).toMatchObject({ phase: "down", brokenSince: 1000, attempts: 2 });
  });

  it("polls when reads answer while the stream is refused", () => {
    const state = run([
      [0, opened],
      [1000, lost()],
      [9000, { kind: "read-ok" }],
      [12_000, tick],
    ]);
    expect(state).toMatchObject({ phase: "polling", asOf: 9000 });
    expect(step(state, { kind: "read-failed" }, 13_000).phase).toBe("down");
    expect(run([[40_000, tick]], state).phase).toBe("down");
  });

  it("is down on a first load without an answer", () => {
    expect(
      run([
        [100, lost()],
        [5000, tick],
      ]).phase,
    ).toBe("connecting");
    expect(
      run([
        [100, lost()],
        [10_000, tick],
      ]).phase,
    ).toBe("down");
  });

  it("keeps the age of the data while down", () => {
    expect(
      run([
        [0, opened],
        [4000, { kind: "frame" }],
        [5000, lost()],
        [60_000, tick],
      ]),
    ).toMatchObject({ phase: "down", asOf: 4000 });
  });

  it("comes back from down and clears the attempts", () => {
    const down = run([
      [0, opened],
      [1000, lost(2000)],
      [12_000, tick],
    ]);
    expect(step(down, opened, 13_000)).toMatchObject({ phase: "live", attempts: 0, nextAttemptAt: null });
  });

  it("stays signed out until someone signs in", () => {
    const out = run([
      [0, opened],
      [5, { kind: "unauthenticated" }],
    ]);
    expect(out.phase).toBe("signed-out");
    expect(
      run(
        [
          [6, lost()],
          [20_000, tick],
          [20_001, { kind: "read-ok" }],
        ],
        out,
      ).phase,
    ).toBe("signed-out");
    expect(run([[7, { kind: "signed-in" }]], out).phase).toBe("connecting");
  });

  it("calls nothing empty while connecting, down or signed out", () => {
    expect(["connecting", "down", "signed-out"].some((phase) => isCurrent(phase as LiveState["phase"]))).toBe(false);
    expect(isCurrent("live") && isCurrent("polling")).toBe(true);
  });
});

describe("backoff", () => {
  it("doubles to five seconds in the first minute", () => {
    expect([0, 1, 2, 3, 9].map((n) => backoff(n, 0, 0.5))).toEqual([1000, 2000, 4000, 4000, 4000]);
  });
  it("grows to thirty seconds afterwards", () => {
    expect([3, 5, 9].map((n) => backoff(n, 61_000, 0.5))).toEqual([8000, 30_000, 30_000]);
  });
  it("has a jitter of a fifth", () => {
    expect(backoff(0, 0, 0)).toBe(800);
    expect(backoff(0, 0, 1)).toBe(1200);
  });
});

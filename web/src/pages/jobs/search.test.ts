import { describe, expect, it } from "vitest";
import { parseJobsSearch, parseTyped } from "./search";

describe("the search of the Jobs page", () => {
  it("drops what it does not know", () => {
    expect(parseJobsSearch({ stage: "testing,nonsense", view: "cube", priority: "urgent", q: 42 })).toEqual({
      stage: "testing",
      q: "42",
    });
  });
  it("reads typed filters and leaves the words for the title", () => {
    expect(parseTyped("stage:testing,failed tag:ux tag:q4 fix http://login")).toEqual({
      search: { stage: "testing,failed", tag: "ux,q4", q: "fix http://login" },
      unknown: [],
    });
    expect(parseTyped("stage:open").search.stage).toBe("queued,blocked,assigned,building,review,testing");
  });
  it("reports a known key with an impossible value", () => {
    expect(parseTyped("stage:nonsense priority:urgent repo:").unknown).toEqual([
      "stage:nonsense",
      "priority:urgent",
      "repo:",
    ]);
  });
});

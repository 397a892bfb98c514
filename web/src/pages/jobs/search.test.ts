import { describe, expect, it } from "vitest";
import { parseJobsSearch, parseTyped } from "./search";

describe("the filter of the Jobs page", () => {
  it("keeps only what the API understands", () => {
    expect(parseJobsSearch({ stage: "review,nonsense,queued", view: "board", priority: "urgent", repo: "" })).toEqual({
      view: "board",
      stage: "queued,review",
      repo: undefined,
      priority: undefined,
    });
  });
  it("reads typed filters and names what it cannot search for", () => {
    expect(parseTyped("stage:testing repo:web priority:high fix login")).toEqual({
      search: { stage: "testing", repo: "web", priority: "high" },
      unknown: ["fix", "login"],
    });
    expect(parseTyped("stage:open").search.stage).toContain("queued");
    expect(parseTyped("stage:nope").unknown).toEqual(["stage:nope"]);
  });
});

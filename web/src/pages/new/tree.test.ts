import { expect, it } from "vitest";
import type { PlannedJob } from "../../api/types";
import { branchesOf } from "./tree";

const job = (title: string, parent?: number, after: number[] = []): PlannedJob => ({
  title,
  line: 1,
  kind: "task",
  parent,
  after,
});

// [J4]
it("nests jobs below their parents and does not repeat what a parent waits for", () => {
  const [root, ...others] = branchesOf([
    job("Release"),
    job("Docs", 0),
    job("Code", 0, [1]),
    job("Parser", 2, [1]),
    job("Printer", 2, [1, 3]),
  ]);

  expect(others).toEqual([]);
  expect(root?.below.map((branch) => branch.job.title)).toEqual(["Docs", "Code"]);
  const code = root?.below[1];
  expect(code?.after).toEqual(["Docs"]);
  expect(code?.below.map((branch) => [branch.job.title, branch.after])).toEqual([
    ["Parser", []],
    ["Printer", ["Parser"]],
  ]);
});

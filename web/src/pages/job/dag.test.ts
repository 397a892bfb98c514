import { describe, expect, it } from "vitest";
import type { DagNode } from "../../api/types";
import { drawnLinks, layersOf } from "./dag";

const node = (id: string, ...deps: string[]): DagNode => ({ id, deps, stage: "queued", title: id });

describe("dependency layers", () => {
  it("puts a job behind everything it waits for", () => {
    const layers = layersOf([node("c", "b", "a"), node("b", "a"), node("a"), node("d")]);
    expect(layers.map((layer) => layer.map((one) => one.id))).toEqual([["a", "d"], ["b"], ["c"]]);
  });
  it("puts a parent behind its children", () => {
    const child = (id: string, parentId: string): DagNode => ({ ...node(id), parentId });
    const layers = layersOf([node("p"), child("a", "p"), { ...child("b", "p"), deps: ["a"] }]);
    expect(layers.map((layer) => layer.map((one) => one.id))).toEqual([["a"], ["b"], ["p"]]);
  });
  it("puts a job next to the first one that waits for it", () => {
    const layers = layersOf([node("c", "b", "late"), node("b", "a"), node("a"), node("late")]);
    expect(layers.map((layer) => layer.map((one) => one.id))).toEqual([["a"], ["b", "late"], ["c"]]);
  });
  it("draws no line from a child that its parent waits for through another one", () => {
    const child = (id: string, ...deps: string[]): DagNode => ({ ...node(id, ...deps), parentId: "p" });
    const links = drawnLinks([node("p"), child("a"), child("b", "a"), child("c")]);
    expect(links.map(({ from, to }) => `${from}-${to}`)).toEqual(["a-b", "b-p", "c-p"]);
  });
  it("survives a cycle and an unknown dependency", () => {
    expect(layersOf([node("a", "b"), node("b", "a"), node("c", "gone")]).flat()).toHaveLength(3);
  });
});

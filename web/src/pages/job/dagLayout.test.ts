import { describe, expect, it } from "vitest";
import type { DagNode } from "../../api/types";
import { BOX, layOut, pathOf } from "./dagLayout";

const node = (id: string, ...deps: string[]): DagNode => ({ id, deps, stage: "queued", title: id });

describe("the picture of a graph", () => {
  it("places every box once, from left to right and without overlap", () => {
    const { boxes, edges, width, height } = layOut([node("a"), node("b", "a"), node("c", "a")]);
    const at = new Map(boxes.map((box) => [box.node.id, box]));
    expect([...at.keys()].sort()).toEqual(["a", "b", "c"]);
    expect((at.get("b")?.x ?? 0) - (at.get("a")?.x ?? 0)).toBe(BOX.width + BOX.gapX);
    expect(Math.abs((at.get("b")?.y ?? 0) - (at.get("c")?.y ?? 0))).toBeGreaterThanOrEqual(BOX.height + BOX.gapY);
    expect(edges.map(({ from, to }) => `${from}-${to}`)).toEqual(["a-b", "a-c"]);
    expect(width).toBeGreaterThan(400);
    expect(height).toBe(112);
  });
  it("draws children to their parent, and ships an edge with its job", () => {
    const { edges } = layOut([node("p"), { ...node("a"), parentId: "p", stage: "shipped" }]);
    expect(edges).toMatchObject([{ from: "a", to: "p", isChild: true, isOpen: false }]);
    expect(pathOf(edges[0]?.points ?? [])).toMatch(/^M[\d.]+ [\d.]+.*L[\d.]+ [\d.]+$/);
  });
  it("survives a cycle and an unknown dependency", () => {
    const { boxes, edges } = layOut([node("a", "b"), node("b", "a"), node("c", "gone")]);
    expect(boxes).toHaveLength(3);
    expect(edges).toHaveLength(2);
    expect(boxes.every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y))).toBe(true);
  });
});

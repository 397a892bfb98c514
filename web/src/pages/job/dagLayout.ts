import { Graph, layout } from "@dagrejs/dagre";
import type { DagNode } from "../../api/types";
import { drawnLinks, type Link } from "./dag";

export const BOX = { width: 208, height: 48, gapX: 56, gapY: 16 };

export type Point = { x: number; y: number };
export type Box = { node: DagNode; x: number; y: number };
export type Edge = Link & { isOpen: boolean; points: Point[] };
export type Layout = { boxes: Box[]; edges: Edge[]; width: number; height: number };

/** Boxes and edges from left to right. Links to jobs that are not shown are left out. */
export function layOut(nodes: readonly DagNode[]): Layout {
  const graph = new Graph();
  graph.setGraph({ rankdir: "LR", ranksep: BOX.gapX, nodesep: BOX.gapY });
  graph.setDefaultEdgeLabel(() => ({}));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  for (const node of nodes) graph.setNode(node.id, { width: BOX.width, height: BOX.height });
  const links = drawnLinks(nodes).filter(({ from, to }) => byId.has(from) && byId.has(to));
  for (const { from, to } of links) graph.setEdge(from, to);
  layout(graph);
  const boxes = nodes.map((node) => {
    const { x, y } = graph.node(node.id);
    return { node, x: x - BOX.width / 2, y: y - BOX.height / 2 };
  });
  const edges = links.map((link) => ({
    ...link,
    isOpen: byId.get(link.from)?.stage !== "shipped",
    points: graph.edge(link.from, link.to)?.points ?? [],
  }));
  const { width = 0, height = 0 } = graph.graph();
  return { boxes, edges, width, height };
}

/** A smooth line through the points of an edge. */
export function pathOf(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  const last = rest.at(-1);
  const curves = rest.slice(0, -1).map((point, at) => {
    const next = rest[at + 1] ?? point;
    return `Q${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`;
  });
  return `M${first.x} ${first.y}${curves.join("")}${last === undefined ? "" : `L${last.x} ${last.y}`}`;
}

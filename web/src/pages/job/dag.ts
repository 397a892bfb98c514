import type { DagNode } from "../../api/types";

/** One job that another waits for: a dependency, or a child. */
export type Link = { from: string; to: string; isChild: boolean };

/** What waits for what: a job for its dependencies, and a parent for its children. */
export function linksOf(nodes: readonly DagNode[]): Link[] {
  return nodes.flatMap((node) => [
    ...node.deps.map((dep) => ({ from: dep, to: node.id, isChild: false })),
    ...(node.parentId == null ? [] : [{ from: node.id, to: node.parentId, isChild: true }]),
  ]);
}

/** For each job, those that it waits for. */
function awaitedBy(nodes: readonly DagNode[]): Map<string, string[]> {
  const awaited = new Map<string, string[]>();
  for (const { from, to } of linksOf(nodes)) awaited.set(to, [...(awaited.get(to) ?? []), from]);
  return awaited;
}

/** Layers in reading order: a job comes after everything it waits for. Survives cycles and missing jobs. */
export function layersOf(nodes: readonly DagNode[]): DagNode[][] {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const awaited = awaitedBy(nodes);
  const depth = new Map<string, number>();
  const visit = (node: DagNode, path: ReadonlySet<string>): number => {
    const known = depth.get(node.id);
    if (known !== undefined) return known;
    const next = new Set(path).add(node.id);
    let most = 0;
    for (const id of awaited.get(node.id) ?? []) {
      const dep = byId.get(id);
      if (dep !== undefined && !next.has(id)) most = Math.max(most, visit(dep, next) + 1);
    }
    depth.set(node.id, most);
    return most;
  };
  const layers: DagNode[][] = [];
  for (const node of nodes) {
    const at = visit(node, new Set());
    while (layers.length <= at) layers.push([]);
    layers[at]?.push(node);
  }
  return layers;
}

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

/** The links to draw: a child whose parent waits for it through another job too needs no line of its own. */
export function drawnLinks(nodes: readonly DagNode[]): Link[] {
  const links = linksOf(nodes);
  const next = new Map<string, string[]>();
  for (const { from, to } of links) next.set(from, [...(next.get(from) ?? []), to]);
  const reaches = (from: string, to: string): boolean => {
    const seen = new Set<string>();
    const open = (next.get(from) ?? []).filter((one) => one !== to);
    for (let one = open.pop(); one !== undefined; one = open.pop()) {
      if (one === to) return true;
      if (seen.has(one)) continue;
      seen.add(one);
      open.push(...(next.get(one) ?? []));
    }
    return false;
  };
  return links.filter(({ from, to, isChild }) => !isChild || !reaches(from, to));
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
  for (const node of nodes) visit(node, new Set());
  // As late as possible: a job is drawn next to the first one that waits for it, and no line crosses a layer in vain.
  const waiting = new Map<string, string[]>();
  for (const { from, to } of linksOf(nodes)) waiting.set(from, [...(waiting.get(from) ?? []), to]);
  const last = [...nodes].sort((a, b) => (depth.get(b.id) ?? 0) - (depth.get(a.id) ?? 0));
  for (const node of last) {
    const own = depth.get(node.id) ?? 0;
    const after = (waiting.get(node.id) ?? []).map((id) => depth.get(id) ?? 0).filter((at) => at > own);
    if (after.length > 0) depth.set(node.id, Math.max(own, Math.min(...after) - 1));
  }
  const layers: DagNode[][] = [];
  for (const node of nodes) {
    const at = depth.get(node.id) ?? 0;
    while (layers.length <= at) layers.push([]);
    layers[at]?.push(node);
  }
  return layers;
}

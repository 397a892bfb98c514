import { Link } from "@tanstack/react-router";
import type { TreeSummary } from "../../api/types";
import { count, money, plural, shortId } from "../../lib/format";
import { Panel } from "../../ui/Panel";
import { Stage } from "../../ui/Stage";

/** The children of a job, each with what is below it. */
export function Children({ tree }: { tree: TreeSummary }) {
  return (
    <Panel title="Children" sub={treeWords(tree)}>
      <table className="table is-fixed is-rows">
        <colgroup>
          <col className="cw-120" />
          <col />
          <col className="cw-88" />
          <col className="cw-88" />
          <col className="cw-88" />
        </colgroup>
        <thead>
          <tr>
            <th>Stage</th>
            <th>Title</th>
            <th className="num">Jobs below</th>
            <th className="num">Cost</th>
            <th className="num">Id</th>
          </tr>
        </thead>
        <tbody>
          {tree.children.map((child) => (
            <tr key={child.id}>
              <td className="first">
                <Stage stage={child.stage} />
              </td>
              <td className="full">
                <Link to="/jobs/$id" params={{ id: child.id }} title={child.title}>
                  {child.title}
                </Link>
              </td>
              <td className="num hide">{child.jobs == null || child.jobs === 0 ? "–" : count(child.jobs)}</td>
              <td className="num hide">{child.spent?.costUsd == null ? "–" : money(child.spent.costUsd)}</td>
              <td className="num hide">
                <span className="id">{shortId(child.id)}</span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

export function treeWords(tree: TreeSummary): string {
  const words = [`${count(tree.shipped)} of ${plural(tree.jobs, "job")} shipped`];
  if (tree.failed > 0) words.push(`${count(tree.failed)} failed`);
  if (tree.spent.costUsd != null) words.push(`${money(tree.spent.costUsd)} in total`);
  return words.join(", ");
}

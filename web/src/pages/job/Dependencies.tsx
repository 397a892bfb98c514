import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { jobDagQuery } from "../../api/queries";
import type { DagNode } from "../../api/types";
import { plural, shortId } from "../../lib/format";
import { QueryPanel } from "../../ui/Panel";
import { Stage } from "../../ui/Stage";
import { layersOf, linksOf } from "./dag";

/** With the layout of graphs, which no other page needs. */
const DagPicture = lazy(() => import("./DagPicture"));

const PICTURE_MAX = 150;

/** Everything the job waits for and everything that waits for it, as a picture and as a list. */
export function Dependencies({ id }: { id: string }) {
  const query = useQuery(jobDagQuery(id));
  return (
    <QueryPanel
      title="Dependencies"
      query={query}
      sub={({ nodes }) => plural(nodes.length, "job")}
      isEmpty={({ nodes }) => nodes.length <= 1}
      empty={
        <div>
          <h2>No dependencies</h2>
          <p className="dim">This job waits for no other job, and no job waits for it.</p>
        </div>
      }
      footer={({ truncated, limit }) => (truncated === true ? `Truncated to the ${limit} nearest jobs` : null)}
    >
      {({ nodes }) => (
        <>
          {nodes.length <= PICTURE_MAX && (
            <Suspense fallback={null}>
              <DagPicture nodes={nodes} here={id} />
            </Suspense>
          )}
          <List nodes={nodes} here={id} />
        </>
      )}
    </QueryPanel>
  );
}

function List({ nodes, here }: { nodes: DagNode[]; here: string }) {
  const titles = new Map(nodes.map((node) => [node.id, node.title]));
  const links = linksOf(nodes);
  return (
    <table className="table is-fixed is-rows group-t">
      <colgroup>
        <col className="cw-120" />
        <col />
        <col className="cw-40p" />
        <col className="cw-88" />
      </colgroup>
      <thead>
        <tr>
          <th>Stage</th>
          <th>Title</th>
          <th>After</th>
          <th className="num">Id</th>
        </tr>
      </thead>
      <tbody>
        {layersOf(nodes)
          .flat()
          .map((node) => (
            <tr key={node.id} className={node.id === here ? "is-cursor" : undefined}>
              <td className="first">
                <Stage stage={node.stage} />
              </td>
              <td className="full">
                <Link to="/jobs/$id" params={{ id: node.id }} search={{ tab: "deps" }} title={node.title}>
                  {node.title}
                </Link>
              </td>
              <td className="dim">
                {links
                  .filter(({ to }) => to === node.id)
                  .map(({ from }) => titles.get(from) ?? shortId(from))
                  .join(", ") || "–"}
              </td>
              <td className="num hide">
                <span className="id">{shortId(node.id)}</span>
              </td>
            </tr>
          ))}
      </tbody>
    </table>
  );
}

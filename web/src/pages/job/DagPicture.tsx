import { useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import type { DagNode } from "../../api/types";
import { money } from "../../lib/format";
import { STAGE } from "../../lib/stages";
import { Glyph } from "../../ui/Glyph";
import { BOX, layOut, pathOf } from "./dagLayout";

/** Boxes that are links, from left to right. Phones get the list only. Loaded with its layout when it is shown. */
export default function DagPicture({ nodes, here }: { nodes: DagNode[]; here: string }) {
  const navigate = useNavigate();
  const { boxes, edges, width, height } = useMemo(() => layOut(nodes), [nodes]);
  return (
    <div className="dag only-wide">
      <svg
        width={width + 4}
        height={height + 4}
        viewBox={`-2 -2 ${width + 4} ${height + 4}`}
        role="group"
        aria-label="Graph of dependencies and children"
      >
        <defs>
          <marker id="dag-head" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">
            <path className="head" d="M0 0 6 3 0 6z" />
          </marker>
        </defs>
        {edges.map(({ from, to, isChild, isOpen, points }) => (
          <path
            key={`${from}-${to}-${isChild}`}
            className={`edge ${isOpen ? "is-open" : ""} ${isChild ? "is-child" : ""}`}
            markerEnd="url(#dag-head)"
            d={pathOf(points)}
          />
        ))}
        {boxes.map(({ node, x, y }) => (
          <a
            key={node.id}
            href={`/jobs/${node.id}?tab=deps`}
            className={node.id === here ? "is-here" : undefined}
            aria-current={node.id === here ? "true" : undefined}
            onClick={(event) => {
              if (event.metaKey || event.ctrlKey) return;
              event.preventDefault();
              void navigate({ to: "/jobs/$id", params: { id: node.id }, search: { tab: "deps" } });
            }}
          >
            <title>{node.waiting == null ? node.title : `${node.title}: ${node.waiting.text}`}</title>
            <rect className="box" x={x} y={y} width={BOX.width} height={BOX.height} rx="4" />
            <foreignObject x={x + 10} y={y + 6} width={BOX.width - 20} height="20">
              <div className="t1">{node.title}</div>
            </foreignObject>
            <g className={STAGE[node.stage].className}>
              <svg x={x + 10} y={y + 28} width="12" height="12" aria-hidden="true">
                <Glyph name={STAGE[node.stage].glyph} />
              </svg>
              <text className="stx" x={x + 28} y={y + 38}>
                {STAGE[node.stage].word}
                {node.kind === "composite" && " · composite"}
                {node.spent?.costUsd != null && ` · ${money(node.spent.costUsd)}`}
              </text>
            </g>
          </a>
        ))}
      </svg>
    </div>
  );
}

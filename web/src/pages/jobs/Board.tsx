import { Link } from "@tanstack/react-router";
import type { StageName } from "../../api/types";
import { count } from "../../lib/format";
import { whyOf } from "../../lib/why";
import { useIsCurrent } from "../../live";
import { useJob, useProgress } from "../../live/jobs";
import { Age } from "../../ui/Age";
import { Glyph, type GlyphName } from "../../ui/Glyph";
import { Cost } from "../../ui/Money";
import { PanelError } from "../../ui/PanelError";
import { StageGlyph } from "../../ui/Stage";
import { Words } from "../../ui/Words";
import { parseStages } from "./search";
import { type JobFilter, useJobList } from "./useJobList";

type LaneSpec = { name: string; stages: readonly StageName[]; className: string; glyph: GlyphName; sub: string };

const LANES: readonly LaneSpec[] = [
  { name: "Waiting", stages: ["queued", "blocked"], className: "st-queued", glyph: "queued", sub: "queued or blocked" },
  {
    name: "Running",
    stages: ["assigned", "building"],
    className: "st-building",
    glyph: "building",
    sub: "assigned or building",
  },
  { name: "Review", stages: ["review"], className: "st-review", glyph: "review", sub: "waiting for a review" },
  {
    name: "Testing",
    stages: ["testing"],
    className: "st-testing",
    glyph: "testing",
    sub: "completed, waiting to be merged",
  },
  { name: "Shipped", stages: ["shipped"], className: "st-shipped", glyph: "shipped", sub: "merged" },
  {
    name: "Failed",
    stages: ["failed", "dead_letter"],
    className: "st-failed",
    glyph: "failed",
    sub: "failed or dead letter",
  },
];
const CARDS_MAX = 50;

export function Board({ filter }: { filter: JobFilter }) {
  const chosen = parseStages(filter.stage);
  const lanes =
    chosen.length === 0 ? LANES : LANES.filter((lane) => lane.stages.some((stage) => chosen.includes(stage)));
  return (
    <div className="board">
      {lanes.map((lane) => (
        <Lane key={lane.name} lane={lane} filter={filter} />
      ))}
    </div>
  );
}

function Lane({ lane, filter }: { lane: LaneSpec; filter: JobFilter }) {
  const list = useJobList({ ...filter, stage: lane.stages.join(",") }, { kind: "lane", limit: CARDS_MAX });
  const isCurrent = useIsCurrent();
  return (
    <section className="lane" aria-label={lane.name}>
      <div className={`lane-h ${lane.className}`}>
        <Glyph name={lane.glyph} />
        <h2>{lane.name}</h2>
        <span className="n">{list.hasAnswer && count(Math.max(list.total?.count ?? 0, list.ids.length))}</span>
      </div>
      <p className="lane-sub">{lane.sub}</p>
      {list.error !== null && <PanelError error={list.error} retry={list.reload} />}
      {list.ids.map((id) => (
        <Card key={id} id={id} />
      ))}
      {list.hasAnswer && isCurrent && list.ids.length === 0 && <p className="small dim">None</p>}
      {list.next !== null && (
        <Link
          className="lane-more"
          to="/jobs"
          search={(old) => ({ ...old, view: undefined, stage: lane.stages.join(",") })}
        >
          {list.total === null ? "Show all" : `${count(list.total.count - list.ids.length)} more`} in the table
        </Link>
      )}
    </section>
  );
}

function Card({ id }: { id: string }) {
  const job = useJob(id);
  const progress = useProgress(id);
  if (job === undefined) return null;
  const why = whyOf(job, progress);
  const isRunning = job.stage === "building" || job.stage === "assigned";
  const hasEnded = job.stage === "shipped" || job.stage === "failed" || job.stage === "dead_letter";
  const since = isRunning
    ? (job.run?.startedAt ?? job.run?.grantedAt ?? job.updatedAt)
    : hasEnded
      ? job.updatedAt
      : job.createdAt;
  const cost = progress?.costUsd ?? job.spent?.costUsd;
  return (
    <article className="jc">
      <Link className="name" to="/jobs/$id" params={{ id }}>
        {job.title}
      </Link>
      {why.text !== "" && job.stage !== "shipped" && (
        <p className={`why t3 ${why.isWarn ? "is-warn" : "dim"}`}>
          <Words text={why.text} />
        </p>
      )}
      <p className="meta">
        <StageGlyph stage={job.stage} />
        <span className="t1">{why.where ?? job.repo ?? job.productId}</span>
        <span className="right">
          <Age at={since} />
          {cost != null && (
            <>
              {" · "}
              <Cost spent={job.spent} running={progress?.costUsd} />
            </>
          )}
        </span>
      </p>
    </article>
  );
}

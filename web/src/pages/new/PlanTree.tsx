import { isOutage } from "../../api/problem";
import type { PlannedJob, PlanResponse } from "../../api/types";
import { clock, plural } from "../../lib/format";
import { useIsCurrent } from "../../live";
import { Glyph } from "../../ui/Glyph";
import { Panel } from "../../ui/Panel";
import { Words } from "../../ui/Words";
import { type Branch, branchesOf } from "./tree";
import type { DryRun } from "./useDryRun";

type GoTo = (line: number) => void;

/** The tree that a plan would become. While the coordinator does not answer: that of the last text that it checked. */
export function PlanTree({ dryRun, goTo }: { dryRun: DryRun<PlanResponse>; goTo: GoTo }) {
  const { answer, answeredAt, error, isChecking } = dryRun;
  const isCurrent = useIsCurrent();
  const isInvalid = error !== null && !isOutage(error);
  const isOld = (error !== null && !isInvalid) || !isCurrent;
  const shown = isInvalid ? null : answer;
  const note = isChecking ? "checking" : isOld && answeredAt !== null ? `for the text of ${clock(answeredAt)}` : null;
  return (
    <Panel title="The tree" sub={note ?? (shown === null ? null : counts(shown.jobs))}>
      {shown === null ? (
        <p className="panel-b dim">
          {error === null ? "The tree appears as you type." : "The tree appears when the plan has no errors."}
        </p>
      ) : (
        <div className={`panel-b ${isOld ? "is-stale" : ""}`}>
          <Level branches={branchesOf(shown.jobs)} jobs={shown.jobs} goTo={goTo} />
        </div>
      )}
    </Panel>
  );
}

function counts(jobs: readonly PlannedJob[]): string {
  const composites = jobs.filter((job) => job.kind === "composite").length;
  const tasks = plural(jobs.length - composites, "task");
  return composites === 0 ? tasks : `${tasks} and ${plural(composites, "composite")}`;
}

function Level({ branches, jobs, goTo }: { branches: Branch[]; jobs: readonly PlannedJob[]; goTo: GoTo }) {
  return (
    <ul className="plan-tree">
      {branches.map(({ job, at, below, after }) => (
        <li key={at}>
          <Row job={job} after={after} hasChildren={below.length > 0} goTo={goTo} />
          {below.length > 0 && <Level branches={below} jobs={jobs} goTo={goTo} />}
        </li>
      ))}
    </ul>
  );
}

type RowProps = { job: PlannedJob; after: string[]; hasChildren: boolean; goTo: GoTo };

function Row({ job, after, hasChildren, goTo }: RowProps) {
  const { placement } = job;
  const kind =
    job.kind === "composite" ? "follows the jobs below" : hasChildren ? "runs after the jobs below" : undefined;
  const notes = [kind, after.length > 0 ? `after ${after.join(", ")}` : undefined].filter((one) => one !== undefined);
  return (
    <div className="plan-job">
      <span className={placement?.unplaceable === true ? "st-failed" : "dim"}>
        <Glyph name={job.kind === "composite" ? "ring" : placement?.unplaceable === true ? "failed" : "queued"} />
      </span>
      <span className="wrap-any">
        <button type="button" className="plan-title" onClick={() => goTo(job.line)} title={`line ${job.line}`}>
          {job.title}
        </button>
        {notes.length > 0 && <span className="dim small"> {notes.join(", ")}</span>}
        {placement != null && (
          <span className={`place small ${placement.unplaceable ? "is-bad" : "dim"}`}>
            <Words text={placement.text} />
          </span>
        )}
      </span>
    </div>
  );
}

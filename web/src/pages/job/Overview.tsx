import type { JobDetail } from "../../api/types";
import { Children } from "./Children";
import { Evidence } from "./Evidence";
import { Explain } from "./Explain";
import { LogPanel } from "./LogPanel";
import { Properties } from "./Properties";
import { RunsTable } from "./Runs";
import { Timeline } from "./Timeline";

export function Overview({ job }: { job: JobDetail }) {
  const hasEnded = job.stage === "shipped" || job.stage === "failed" || job.stage === "dead_letter";
  const isFinished = job.stage === "testing" || job.stage === "review";
  return (
    <div className="job-cols">
      <div className="stack">
        {isFinished && job.runs > 0 && <Evidence id={job.id} n={job.runs} />}
        {job.tree != null && <Children tree={job.tree} />}
        <Timeline job={job} />
        {job.runs > 0 && <LogPanel job={job} />}
        {job.runs > 0 && <RunsTable job={job} />}
        {!hasEnded && <Explain id={job.id} />}
      </div>
      <Properties job={job} />
    </div>
  );
}

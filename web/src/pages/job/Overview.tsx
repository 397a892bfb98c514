import type { JobDetail } from "../../api/types";
import { Explain } from "./Explain";
import { LogPanel } from "./LogPanel";
import { Properties } from "./Properties";
import { RunsTable } from "./Runs";
import { Timeline } from "./Timeline";

export function Overview({ job }: { job: JobDetail }) {
  return (
    <div className="job-cols">
      <div className="stack">
        <Timeline job={job} />
        {job.runs > 0 && <LogPanel job={job} />}
        {job.runs > 0 && <RunsTable job={job} />}
        <Explain id={job.id} />
      </div>
      <Properties job={job} />
    </div>
  );
}

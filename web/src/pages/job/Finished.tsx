import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { runEvidenceQuery } from "../../api/queries";
import type { JobDetail } from "../../api/types";
import { plural } from "../../lib/format";
import { Glyph } from "../../ui/Glyph";
import { Skeleton } from "../../ui/Panel";
import { CheckRow } from "./Evidence";
import { parseDiff } from "./parseDiff";

/** What a finished job did: its checks and its diff in short. */
export function Finished({ job }: { job: JobDetail }) {
  const { data } = useQuery({ ...runEvidenceQuery(job.id, job.runs), enabled: job.runs > 0 });
  if (job.runs === 0) return <p className="measure">It changed no file.</p>;
  if (data === undefined) return <Skeleton />;
  const files = parseDiff(data.diff ?? "");
  const added = files.reduce((sum, file) => sum + file.added, 0);
  const removed = files.reduce((sum, file) => sum + file.removed, 0);
  return (
    <div className="panel">
      <ul className="evidence">
        {data.verify.length === 0 && (
          <li>
            <span className="st-warn">
              <Glyph name="warn" />
            </span>
            <span>No verify command ran on this commit</span>
          </li>
        )}
        {data.verify.map((check, index) => (
          <CheckRow key={index} check={check} />
        ))}
        <li>
          <span className="dim">
            <Glyph name="checkpoint" />
          </span>
          <span className="wrap-any">
            {plural(files.length, "file")} changed:{" "}
            <span className="mono">
              {files
                .slice(0, 6)
                .map((file) => file.name)
                .join(", ")}
            </span>
            {files.length > 6 && ` and ${files.length - 6} more`}
          </span>
          <span className="num">
            <span className="add">+{added}</span> <span className="del">−{removed}</span>
          </span>
        </li>
      </ul>
      <div className="panel-f">
        <Link className="link" to="/jobs/$id" params={{ id: job.id }} search={{ tab: "runs" }}>
          Full diff
        </Link>
      </div>
    </div>
  );
}

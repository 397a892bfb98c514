import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { jobsPanelQuery } from "../../api/queries";
import type { JobView } from "../../api/types";
import { shortSha } from "../../lib/format";
import { failureText } from "../../lib/why";
import { useProduct } from "../../shell/ProductSwitcher";
import { Age } from "../../ui/Age";
import { Cost } from "../../ui/Money";
import { QueryPanel } from "../../ui/Panel";
import { Stage } from "../../ui/Stage";
import { Words } from "../../ui/Words";

const SHOWN = 6;
const ENDED = ["shipped", "failed", "dead_letter"] as const;

export function Recent() {
  // The API lists by creation: read some more and order by when they ended.
  const query = useQuery(jobsPanelQuery(ENDED, useProduct(), 50));
  return (
    <QueryPanel
      title="Last shipped and failed"
      query={query}
      right={
        <Link className="link" to="/jobs" search={{ stage: ENDED.join(",") }}>
          All
        </Link>
      }
      isEmpty={({ items }) => items.length === 0}
      empty={
        <div>
          <h2>No job has ended yet</h2>
          <p className="dim">Merged and failed jobs appear here.</p>
        </div>
      }
    >
      {({ items }) => (
        <table className="table is-rows is-fixed nohead recent-table">
          <colgroup>
            <col className="cw-120" />
            <col />
            <col className="cw-196" />
            <col className="cw-280" />
            <col className="cw-72" />
            <col className="cw-104" />
          </colgroup>
          <thead>
            <tr>
              <th>Stage</th>
              <th>Title</th>
              <th>Product / repo</th>
              <th>Outcome</th>
              <th className="num">Cost</th>
              <th className="num">Ended</th>
            </tr>
          </thead>
          <tbody>
            {[...items]
              .sort((a, b) => b.updatedAt.localeCompare(a.updatedAt))
              .slice(0, SHOWN)
              .map((job) => (
                <Row key={job.id} job={job} />
              ))}
          </tbody>
        </table>
      )}
    </QueryPanel>
  );
}

function Row({ job }: { job: JobView }) {
  const outcome =
    job.stage === "shipped"
      ? job.pullRequest != null
        ? `merged as #${job.pullRequest.number}`
        : job.completedSha != null
          ? `merged ${shortSha(job.completedSha)}`
          : "merged"
      : failureText(job.reason, job.message);
  return (
    <tr>
      <td className="first">
        <Stage stage={job.stage} />
      </td>
      <td className="full">
        <Link to="/jobs/$id" params={{ id: job.id }} title={job.title}>
          {job.title}
        </Link>
      </td>
      <td className="dim">{[job.productId, job.repo].filter(Boolean).join(" / ")}</td>
      <td className="dim" title={outcome}>
        <Words text={outcome} />
      </td>
      <td className="num hide">
        <Cost spent={job.spent} />
      </td>
      <td className="num tr dim">
        <Age at={job.updatedAt} suffix=" ago" />
      </td>
    </tr>
  );
}

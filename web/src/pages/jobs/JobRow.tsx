import { Link } from "@tanstack/react-router";
import { memo } from "react";
import { whyOf } from "../../lib/why";
import { useJob, useProgress } from "../../live/jobs";
import { Age } from "../../ui/Age";
import { Cost } from "../../ui/Money";
import { Stage } from "../../ui/Stage";
import { Words } from "../../ui/Words";

type Props = {
  id: string;
  index: number;
  isCursor: boolean;
  isSelected: boolean;
  toggle: (id: string) => void;
  fits: (stage: string) => boolean;
  measure: ((node: Element | null) => void) | undefined;
};

export const JobRow = memo(function JobRow({ id, index, isCursor, isSelected, toggle, fits, measure }: Props) {
  const job = useJob(id);
  const progress = useProgress(id);
  if (job === undefined) return null;
  const why = whyOf(job, progress);
  const hasEnded = job.stage === "shipped" || job.stage === "failed" || job.stage === "dead_letter";
  const isOut = !fits(job.stage);
  const className = [isSelected && "is-sel", isCursor && "is-cursor", isOut && "is-out"].filter(Boolean).join(" ");
  return (
    <tr
      ref={measure}
      data-index={index}
      className={className}
      title={isOut ? "No longer matches the filter" : undefined}
    >
      <td className="hide">
        <input type="checkbox" checked={isSelected} onChange={() => toggle(id)} aria-label={`Select ${job.title}`} />
      </td>
      <td className="first">
        <Stage stage={job.stage} />
      </td>
      <td className="full">
        <Link to="/jobs/$id" params={{ id }} title={job.title}>
          {job.title}
        </Link>
      </td>
      <td className="dim">{[job.productId, job.repo].filter(Boolean).join(" / ")}</td>
      <td className={job.priority === "critical" || job.priority === "high" ? "strong" : "dim"}>
        {job.priority === "normal" ? "" : job.priority}
      </td>
      <td className="num tr">
        <Age at={hasEnded ? job.updatedAt : (job.run?.startedAt ?? job.createdAt)} />
      </td>
      <td className="num hide">{job.runs === 0 ? "–" : job.runs}</td>
      <td className="num hide">
        <Cost spent={job.spent} running={progress?.costUsd} />
      </td>
      <td className={`full ${why.isWarn ? "is-warn" : ""}`} title={why.text}>
        <span className="t1">
          {why.where !== null && why.where}
          {why.where !== null && why.text !== "" && <span className="dim"> · </span>}
          <span className={why.isWarn ? "" : "dim"}>
            <Words text={why.text} />
          </span>
        </span>
      </td>
    </tr>
  );
});

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { jobQuery } from "../../api/queries";
import type { FactoryView } from "../../api/types";
import { money } from "../../lib/format";
import { useProgress } from "../../live/jobs";
import { Age } from "../../ui/Age";
import { StageGlyph } from "../../ui/Stage";
import { Words } from "../../ui/Words";

/** What runs in one seat: the job, what its agent does now, since when, and what the run has cost so far. */
export function SeatRow({ seat }: { seat: FactoryView["seats"][number] }) {
  if (seat.jobId == null) {
    return (
      <li>
        <StageGlyph stage="building" />
        <span className="t1 dim">a job of another product</span>
      </li>
    );
  }
  return <JobSeat id={seat.jobId} title={seat.title} isDispatched={seat.dispatchedOnly} />;
}

function JobSeat({ id, title, isDispatched }: { id: string; title: string; isDispatched: boolean }) {
  const { data: job } = useQuery(jobQuery(id));
  const live = useProgress(id);
  const progress = live ?? job?.progress;
  const cost = progress?.costUsd;
  const since = job?.run?.startedAt ?? job?.run?.grantedAt;
  return (
    <li>
      <StageGlyph stage={isDispatched ? "assigned" : (job?.stage ?? "building")} />
      <span className="t1">
        <Link to="/jobs/$id" params={{ id }} title={title}>
          {title}
        </Link>
      </span>
      <span className="t1 dim doing" title={progress?.doing ?? undefined}>
        <Words text={isDispatched ? "offered, not accepted yet" : (progress?.doing ?? "")} />
      </span>
      <span className="num">{since != null && <Age at={since} />}</span>
      <span className="num">{cost == null ? "–" : money(cost)}</span>
    </li>
  );
}

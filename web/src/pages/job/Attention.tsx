import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { jobExplainQuery } from "../../api/queries";
import type { JobDetail } from "../../api/types";
import { plural, shortId, shortSha } from "../../lib/format";
import { reasonWords } from "../../lib/stages";
import { firstLine } from "../../lib/why";
import { Glyph, type GlyphName } from "../../ui/Glyph";
import { Words } from "../../ui/Words";
import { Answer } from "./Answer";
import { Review } from "./Review";

/** The one thing about this job that a person should know now, if there is one. */
export function Attention({ job }: { job: JobDetail }) {
  if (job.question != null && job.stage === "blocked") return <Answer job={job} />;
  if (job.stage === "review" && job.review != null) return <Review job={job} review={job.review} />;
  if (job.stage === "failed" || job.stage === "dead_letter") return <Failure job={job} />;
  if (job.mergeFailure != null && job.stage === "testing") {
    const { message, givenUp, triesLeft, files = [], conflictsWith } = job.mergeFailure;
    return (
      <Card
        look={givenUp ? "is-bad-card" : ""}
        glyph="failed"
        head={
          givenUp ? "The merge failed" : `The merge failed and is retried, ${plural(triesLeft, "try", "tries")} left`
        }
      >
        <Words text={firstLine(message)} />
        {conflictsWith != null && (
          <>
            {" "}
            Conflicts with{" "}
            <Link className="link" to="/jobs/$id" params={{ id: conflictsWith.jobId }}>
              {conflictsWith.title ?? shortId(conflictsWith.jobId)}
            </Link>
            .
          </>
        )}
        {files.length > 0 && (
          <>
            {" "}
            Conflicting files: {files.slice(0, 5).join(", ")}
            {files.length > 5 && ` and ${files.length - 5} more`}.
          </>
        )}
        {givenUp && " Requeue it to rebase its work onto the base branch."}
      </Card>
    );
  }
  if (job.stage === "testing" && job.errand == null) {
    return (
      <Card
        look="is-ok-card"
        glyph="testing"
        head={job.verified === true ? "Verified, ready to ship" : "Completed without verification, ready to ship"}
      >
        The commit waits on its branch until someone ships it.
      </Card>
    );
  }
  if (job.stage === "queued" || job.stage === "blocked") return <Waiting job={job} />;
  return null;
}

function Failure({ job }: { job: JobDetail }) {
  const reason = job.reason == null ? "failed" : reasonWords(job.reason);
  const head =
    job.stage === "dead_letter" ? `Dead-lettered after ${plural(job.runs, "run")}: ${reason}` : `Failed: ${reason}`;
  return (
    <Card look="is-bad-card" glyph={job.stage === "failed" ? "failed" : "dead"} head={head}>
      {job.message != null && job.message !== "" ? (
        <span className="pre-line t6">
          <Words text={job.message} />
        </span>
      ) : null}
      <p className="attn-more">
        {job.checkpoint == null
          ? "It has no checkpoint: a requeued job starts from the base branch. "
          : `Its work is saved in checkpoint ${shortSha(job.checkpoint.sha)}: a requeued job continues from it unless you drop it. `}
        {job.runs > 0 && (
          <>
            <Link className="link" to="/jobs/$id" params={{ id: job.id }} search={{ tab: "runs" }}>
              What was checked
            </Link>
            {" · "}
            <Link className="link" to="/jobs/$id" params={{ id: job.id }} search={{ tab: "log" }}>
              Log
            </Link>
          </>
        )}
      </p>
    </Card>
  );
}

function Waiting({ job }: { job: JobDetail }) {
  const { data } = useQuery(jobExplainQuery(job.id));
  if (data === undefined) return null;
  const isStuck = job.waiting?.unplaceable === true || job.failedDependency != null;
  return (
    <Card
      look={isStuck ? "" : "is-plain-card"}
      glyph={isStuck ? "warn" : "queued"}
      head={<Words text={data.summary.charAt(0).toUpperCase() + data.summary.slice(1)} />}
    >
      {job.stage === "queued" && (
        <Link className="link" to="/jobs/$id" params={{ id: job.id }} search={{ tab: "explain" }}>
          Every factory and why
        </Link>
      )}
      {job.stage === "blocked" && (
        <Link className="link" to="/jobs/$id" params={{ id: job.id }} search={{ tab: "deps" }}>
          Dependencies
        </Link>
      )}
    </Card>
  );
}

export function Card({
  look,
  glyph,
  head,
  children,
}: {
  look: string;
  glyph: GlyphName;
  head: React.ReactNode;
  children: React.ReactNode;
}) {
  return (
    <section className={`attn ${look}`} aria-label="Attention">
      <Glyph name={glyph} />
      <div>
        <p>
          <b className="strong">{head}</b>
        </p>
        <div className="dim">{children}</div>
      </div>
    </section>
  );
}

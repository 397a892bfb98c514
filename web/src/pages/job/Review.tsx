import { type ReactNode, useId, useState } from "react";
import { voteOnJob } from "../../api/actions";
import type { JobDetail, JobReview, Vote, VoteDecision } from "../../api/types";
import { plural, shortSha } from "../../lib/format";
import { queries } from "../../live";
import { upsertJobs } from "../../live/jobs";
import { Age } from "../../ui/Age";
import { WriteButton } from "../../ui/Button";
import { Glyph, type GlyphName } from "../../ui/Glyph";
import { PanelError } from "../../ui/PanelError";
import { say } from "../../ui/toasts";
import { Words } from "../../ui/Words";
import { Card } from "./Attention";
import { Finished } from "./Finished";

const DONE: Record<VoteDecision, string> = {
  approve: "Approved",
  changes: "Changes requested, job queued",
  reject: "Rejected",
};

const VOTED: Record<VoteDecision, { word: string; glyph: GlyphName; className: string }> = {
  approve: { word: "approved", glyph: "shipped", className: "st-shipped" },
  changes: { word: "requested changes", glyph: "review", className: "st-review" },
  reject: { word: "rejected", glyph: "failed", className: "st-failed" },
};

/** A finished job that waits for its reviewers: what was done, who voted, and the three decisions. */
export function Review({ job, review }: { job: JobDetail; review: JobReview }) {
  return (
    <Card look="is-ask is-review" glyph="review" head={`In review: ${progress(review)}`}>
      <div className="stack gap-3">
        <Finished job={job} />
        <ReviewBox job={job} review={review} />
      </div>
    </Card>
  );
}

export function progress(review: JobReview): string {
  return `${review.approvals} of ${plural(review.quorum, "approval")}`;
}

export function ReviewBox({ job, review, extra }: { job: JobDetail; review: JobReview; extra?: ReactNode }) {
  return (
    <div className="stack gap-3">
      <Votes review={review} />
      {job.vote?.allowed === true ? (
        <VoteForm key={review.sha ?? review.run} job={job} review={review} extra={extra} />
      ) : (
        <>
          {job.vote?.whyNot != null && (
            <p>
              You cannot vote: <Words text={job.vote.whyNot} />
            </p>
          )}
          {extra !== undefined && <div className="btns">{extra}</div>}
        </>
      )}
    </div>
  );
}

function Votes({ review }: { review: JobReview }) {
  const { votes = [], reviewers = [] } = review;
  const missing = reviewers.filter(
    (name) => !votes.some((vote) => isSame(vote.by, name)) && !isSame(name, review.author),
  );
  return (
    <ul className="evidence panel" aria-label="Votes">
      {votes.map((vote) => (
        <VoteRow key={vote.by} vote={vote} />
      ))}
      <li>
        <span className="dim">
          <Glyph name="queued" />
        </span>
        <span className="wrap-any">
          {missing.length > 0
            ? `No vote yet of ${missing.join(", ")}`
            : `${review.quorum - review.approvals} more of anyone but ${review.author}, who submitted the job`}
        </span>
        {review.waitingSince != null && (
          <span className="num">
            waiting <Age at={review.waitingSince} />
          </span>
        )}
      </li>
    </ul>
  );
}

function VoteRow({ vote }: { vote: Vote }) {
  const look = VOTED[vote.decision];
  return (
    <li>
      <span className={look.className}>
        <Glyph name={look.glyph} />
      </span>
      <span className="wrap-any">
        <b className="strong">{vote.by}</b> {look.word}
        {vote.onForge === true && " on the forge"}
      </span>
      <span className="num">
        <Age at={vote.at} />
      </span>
      {vote.comment != null && (
        <span className="sub pre-line wrap-any">
          <Words text={vote.comment} />
        </span>
      )}
    </li>
  );
}

/** The commit that is shown is the commit that is voted on, also when a newer one arrives meanwhile. */
function VoteForm({ job, review, extra }: { job: JobDetail; review: JobReview; extra?: ReactNode }) {
  const id = useId();
  const [text, setText] = useState("");
  const [busy, setBusy] = useState<VoteDecision | null>(null);
  const [error, setError] = useState<unknown>(null);
  const comment = text.trim();

  async function send(decision: VoteDecision) {
    setBusy(decision);
    setError(null);
    try {
      upsertJobs([await voteOnJob(job.id, review, decision, comment)]);
      say(DONE[decision], job.title);
    } catch (failure) {
      setError(failure);
    }
    setBusy(null);
    await queries.invalidateQueries({ queryKey: ["job", job.id] });
    await queries.invalidateQueries({ queryKey: ["needs"] });
  }

  return (
    <>
      {error !== null && <PanelError error={error} />}
      <div className="field">
        <label htmlFor={id}>Comment</label>
        <textarea
          id={id}
          className="textarea"
          rows={3}
          maxLength={2000}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <span className="hint">
          {review.sha == null ? (
            `Your vote is for the work of run ${review.run}`
          ) : (
            <>
              Your vote is for commit <span className="mono">{shortSha(review.sha)}</span>
            </>
          )}
          . With changes, the agent gets the comment and continues from there.
        </span>
      </div>
      <div className="btns">
        <WriteButton
          look="primary"
          disabled={job.vote?.cast === "approve"}
          busy={busy === "approve"}
          onClick={() => void send("approve")}
        >
          {job.vote?.cast === "approve" ? "Approved" : "Approve"}
        </WriteButton>
        <WriteButton
          disabled={comment === ""}
          busy={busy === "changes"}
          onClick={() => void send("changes")}
          title={comment === "" ? "Write what has to change" : undefined}
        >
          Request changes
        </WriteButton>
        <WriteButton
          look="danger"
          disabled={comment === ""}
          busy={busy === "reject"}
          onClick={() => void send("reject")}
          title={comment === "" ? "Write why" : undefined}
        >
          Reject
        </WriteButton>
        {extra}
      </div>
    </>
  );
}

function isSame(one: string, other: string): boolean {
  const key = (name: string) => name.trim().replace(/\s+/g, " ").toLowerCase();
  return key(one) === key(other);
}

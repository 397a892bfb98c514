import { Menu } from "@base-ui/react/menu";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { JobDetail } from "../../api/types";
import { money } from "../../lib/format";
import { useIsCurrent } from "../../live";
import { useProgress } from "../../live/jobs";
import { useKeys } from "../../shell/keys";
import { Age } from "../../ui/Age";
import { buttonClass, WriteButton } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { Cost } from "../../ui/Money";
import { Stage } from "../../ui/Stage";
import { Words } from "../../ui/Words";
import { type Dialog, JobDialog } from "./JobDialog";

const ENDED = new Set(["shipped", "failed", "dead_letter"]);
const REQUEUEABLE = new Set(["failed", "dead_letter", "testing", "review", "blocked"]);

export function JobHead({ job }: { job: JobDetail }) {
  const progress = useProgress(job.id) ?? job.progress ?? undefined;
  const isCurrent = useIsCurrent();
  const [dialog, setDialog] = useState<Dialog | null>(null);
  const canShip = job.stage === "testing" && job.errand == null;
  const canRequeue = REQUEUEABLE.has(job.stage) && job.question == null;
  const canCancel = !ENDED.has(job.stage);
  const isFinished = job.stage === "testing" || job.stage === "review";
  // Who can vote has both decisions in the card of the review.
  const isVoting = job.stage === "review" && job.vote?.allowed === true;
  useKeys(canShip ? [{ keys: "s", label: "Ship", group: "Job", run: () => setDialog("ship") }] : []);
  const isRunning = job.stage === "building" || job.stage === "assigned";
  return (
    <header className="job-h">
      <div className="top">
        <Stage stage={job.stage} badge />
        <h1>{job.title}</h1>
        <div className="btns">
          {canShip && (
            <WriteButton look="primary" onClick={() => setDialog("ship")} title="Ship (s)">
              Ship…
            </WriteButton>
          )}
          {(job.stage === "failed" || job.stage === "dead_letter") && (
            <WriteButton look="primary" onClick={() => setDialog("requeue")}>
              Requeue…
            </WriteButton>
          )}
          {isFinished && !isVoting && (
            <>
              <WriteButton onClick={() => setDialog("changes")}>Request changes…</WriteButton>
              <WriteButton look="danger" onClick={() => setDialog("reject")}>
                Reject…
              </WriteButton>
            </>
          )}
          {canCancel && !isFinished && (
            <WriteButton look="danger" onClick={() => setDialog("cancel")}>
              Cancel…
            </WriteButton>
          )}
          <Menu.Root>
            <Menu.Trigger className={buttonClass("plain", false, true)} aria-label="More actions">
              <Icon name="more" />
            </Menu.Trigger>
            <Menu.Portal>
              <Menu.Positioner align="end" sideOffset={4}>
                <Menu.Popup className="pop">
                  <Menu.Item className="pop-item" render={<Link to="/new" search={{ from: job.id }} />}>
                    Copy to a new job
                  </Menu.Item>
                  {canRequeue && (
                    <Menu.Item className="pop-item" onClick={() => setDialog("requeue")}>
                      Requeue…
                    </Menu.Item>
                  )}
                  {!ENDED.has(job.stage) && (
                    <Menu.Item className="pop-item" onClick={() => setDialog("priority")}>
                      Change priority…
                    </Menu.Item>
                  )}
                  {!ENDED.has(job.stage) && (
                    <Menu.Item className="pop-item" onClick={() => setDialog(job.pause == null ? "pause" : "resume")}>
                      {job.pause == null ? "Pause…" : "Resume…"}
                    </Menu.Item>
                  )}
                  {isFinished && (
                    <Menu.Item className="pop-item is-danger" onClick={() => setDialog("cancel")}>
                      Cancel…
                    </Menu.Item>
                  )}
                </Menu.Popup>
              </Menu.Positioner>
            </Menu.Portal>
          </Menu.Root>
        </div>
      </div>
      <p className="sub sep-list">
        {isRunning && job.run != null && (
          <span>
            {job.run.factory}, run {job.run.n} {isCurrent ? "for" : "since"}{" "}
            <b>
              <Age at={job.run.startedAt ?? job.run.grantedAt} />
            </b>
          </span>
        )}
        {isRunning && progress?.doing != null && (
          <span className="wrap-any">
            <Words text={progress.doing} />
          </span>
        )}
        {(job.spent?.costUsd != null || progress?.costUsd != null) && (
          <span>
            <b>
              <Cost spent={job.spent} running={progress?.costUsd} />
            </b>
            {job.manifestSnapshot.budget?.usd != null && ` of ${money(job.manifestSnapshot.budget.usd)}`}
          </span>
        )}
        {job.pause != null && (
          <span>
            paused by {job.pause.by} <Age at={job.pause.at} suffix=" ago" />
            {job.pause.message != null && `: ${job.pause.message}`}
          </span>
        )}
        <span>
          submitted by {job.createdBy} {!isCurrent && "at "}
          <Age at={job.createdAt} suffix=" ago" />
        </span>
        {job.pullRequest != null && (
          <a
            className="link"
            href={/^https?:\/\//.test(job.pullRequest.url) ? job.pullRequest.url : undefined}
            target="_blank"
            rel="noreferrer"
          >
            pull request #{job.pullRequest.number}
          </a>
        )}
      </p>
      {dialog !== null && <JobDialog job={job} dialog={dialog} onClose={() => setDialog(null)} />}
    </header>
  );
}

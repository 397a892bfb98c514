import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { actOnJob, dismissJob } from "../../api/actions";
import { factoriesQuery } from "../../api/queries";
import { type ActionRequest, type JobAction, type JobDetail, PRIORITIES } from "../../api/types";
import { factoryState } from "../../lib/factories";
import { shortSha } from "../../lib/format";
import { queries } from "../../live";
import { upsertJobs } from "../../live/jobs";
import { Confirm } from "../../ui/Confirm";
import { say } from "../../ui/toasts";

export type Dialog =
  | "ship"
  | "requeue"
  | "cancel"
  | "priority"
  | "changes"
  | "reject"
  | "dismiss"
  | "pin"
  | "pause"
  | "resume";
type Props = { job: JobDetail; dialog: Dialog; onClose: () => void };

/** Sends an action and shows its outcome at once; the event that follows confirms it. */
async function send(job: JobDetail, action: JobAction, body: ActionRequest, done: string) {
  upsertJobs([await actOnJob(job, action, body)]);
  say(done, job.title);
  await refresh(job.id);
}

async function refresh(id: string) {
  await queries.invalidateQueries({ queryKey: ["job", id] });
  await queries.invalidateQueries({ queryKey: ["needs"] });
}

const reasonOf = (text: string) => (text === "" ? null : text);

export function JobDialog({ job, dialog, onClose }: Props) {
  switch (dialog) {
    case "ship":
      return <Ship job={job} onClose={onClose} />;
    case "requeue":
      return <Requeue job={job} onClose={onClose} />;
    case "priority":
      return <ChangePriority job={job} onClose={onClose} />;
    case "cancel":
      return (
        <Confirm
          title="Cancel this job?"
          verb="Cancel job"
          danger
          reason="Reason"
          onClose={onClose}
          act={(message) => send(job, "cancel", { message: reasonOf(message), fresh: false }, "Cancelled")}
        >
          <p>
            {job.stage === "building" || job.stage === "assigned"
              ? `Its agent on ${job.holderFactoryId ?? "the factory"} is stopped. `
              : "It ends at once. "}
            {job.checkpoint != null && `The checkpoint ${shortSha(job.checkpoint.sha)} is kept. `}A cancelled job can be
            requeued.
          </p>
          {(job.stage === "testing" || job.stage === "review") && (
            <p>
              Cancel says that the work is no longer wanted: the job fails with the reason “cancelled”. If the result is
              not good enough, reject it instead: then your reason is sent to the next run when the job is requeued.
              Neither merges anything.
            </p>
          )}
        </Confirm>
      );
    case "changes":
      return (
        <Confirm
          title="Request changes?"
          verb="Request changes"
          reason="What should change"
          hint="The agent gets this text as its next instructions"
          lines={6}
          onClose={onClose}
          act={(message) =>
            send(job, "request-changes", { message: reasonOf(message), fresh: false }, "Changes requested")
          }
        >
          <p>The job is queued again, and its next run continues from this commit.</p>
        </Confirm>
      );
    case "reject":
      return (
        <Confirm
          title="Reject this result?"
          verb="Reject"
          danger
          reason="What is wrong"
          hint="Shown in the job's events, and sent to the next run if the job is requeued"
          lines={4}
          onClose={onClose}
          act={(message) => send(job, "reject", { message: reasonOf(message), fresh: false }, "Rejected")}
        >
          <p>The job fails with the reason “rejected”. Nothing is merged. It can be requeued.</p>
        </Confirm>
      );
    case "dismiss":
      return (
        <Confirm
          title="Dismiss this job?"
          verb="Dismiss"
          reason="Reason"
          onClose={onClose}
          act={async (message) => {
            await dismissJob(job.id, message === "" ? undefined : message);
            say("Dismissed", job.title);
            await refresh(job.id);
          }}
        >
          <p>It leaves Needs me and the alerts. It keeps its stage and can still be requeued.</p>
        </Confirm>
      );
    case "pause":
      return (
        <Confirm
          title="Pause this job?"
          verb="Pause job"
          reason="Reason"
          hint="Shown while the job waits"
          onClose={onClose}
          act={(message) => send(job, "pause", { message: reasonOf(message), fresh: false }, "Paused")}
        >
          <p>
            It does not start until it is resumed{job.hasChildren === true && ", and neither do the jobs below it"}.
            {(job.stage === "building" || job.stage === "assigned") && " Its agent finishes this run."}
          </p>
        </Confirm>
      );
    case "resume":
      return (
        <Confirm
          title="Resume this job?"
          verb="Resume job"
          onClose={onClose}
          act={() => send(job, "resume", { fresh: false }, "Resumed")}
        >
          <p>It may start again{job.hasChildren === true && ", and so may the jobs below it"}.</p>
        </Confirm>
      );
    case "pin":
      return <Pin job={job} onClose={onClose} />;
    default:
      return dialog satisfies never;
  }
}

function Ship({ job, onClose }: { job: JobDetail; onClose: () => void }) {
  return (
    <Confirm
      title={`Ship “${job.title}”?`}
      verb="Ship"
      onClose={onClose}
      act={() => send(job, "ship", { fresh: false }, "Ship requested")}
    >
      <p>
        {job.completedSha == null
          ? "The job has no commit: it is marked as shipped."
          : `A factory merges commit ${shortSha(job.completedSha)} into ${targetOf(job)}.`}
      </p>
      <p>{job.verified === true ? "Its verify commands passed." : "It was not verified: no verify command ran."}</p>
    </Confirm>
  );
}

/** Without `base` in the manifest the factory's configuration of the repository decides; the coordinator does not know it. */
function targetOf(job: JobDetail): string {
  const repo = job.repo ?? "the repository";
  return job.base == null
    ? `the base branch of ${repo} (main unless its factory sets another one)`
    : `branch ${job.base} of ${repo}`;
}

function Requeue({ job, onClose }: { job: JobDetail; onClose: () => void }) {
  const [fresh, setFresh] = useState(false);
  const { checkpoint } = job;
  return (
    <Confirm
      title="Requeue this job?"
      verb={fresh && checkpoint != null ? "Requeue from the start" : "Requeue"}
      reason="Message for the next run (optional)"
      hint="The agent of the next run gets this text"
      lines={3}
      onClose={onClose}
      act={(message) => send(job, "requeue", { message: reasonOf(message), fresh }, "Requeued")}
    >
      {checkpoint == null ? (
        <p>It has no checkpoint: the next run starts from the base branch.</p>
      ) : (
        <div className="choices" role="radiogroup" aria-label="Checkpoint">
          <label>
            <input type="radio" name="checkpoint" checked={!fresh} onChange={() => setFresh(false)} />
            <span>
              Continue from checkpoint <span className="mono">{shortSha(checkpoint.sha)}</span> of epoch{" "}
              {checkpoint.epoch}
              {checkpoint.session != null && ", with the agent's session"}
            </span>
          </label>
          <label>
            <input type="radio" name="checkpoint" checked={fresh} onChange={() => setFresh(true)} />
            <span>Drop the checkpoint and start from the base branch</span>
          </label>
        </div>
      )}
    </Confirm>
  );
}

function ChangePriority({ job, onClose }: { job: JobDetail; onClose: () => void }) {
  const [priority, setPriority] = useState(job.priority);
  return (
    <Confirm
      title="Change priority"
      verb={`Set to ${priority}`}
      onClose={onClose}
      act={() => send(job, "priority", { priority, fresh: false }, `Priority set to ${priority}`)}
    >
      <div className="choices" role="radiogroup" aria-label="Priority">
        {PRIORITIES.map((one) => (
          <label key={one}>
            <input type="radio" name="priority" checked={one === priority} onChange={() => setPriority(one)} />
            <span>
              {one}
              {one === job.priority && <span className="dim"> (now)</span>}
            </span>
          </label>
        ))}
      </div>
    </Confirm>
  );
}

/** Only factories that are enrolled are offered. */
function Pin({ job, onClose }: { job: JobDetail; onClose: () => void }) {
  const { data } = useQuery(factoriesQuery);
  const [pin, setPin] = useState<string | null>(job.pin ?? null);
  return (
    <Confirm
      title="Pin to a factory"
      verb={pin === null ? "Let any factory take it" : `Pin to ${pin}`}
      onClose={onClose}
      act={() => send(job, "pin", { factoryId: pin, fresh: false }, pin === null ? "Pin removed" : `Pinned to ${pin}`)}
    >
      <p>A pinned job waits for this factory, even if another one is free.</p>
      <div className="choices" role="radiogroup" aria-label="Factory">
        <label>
          <input type="radio" name="pin" checked={pin === null} onChange={() => setPin(null)} />
          <span>Any factory</span>
        </label>
        {data?.items.map((factory) => (
          <label key={factory.id}>
            <input type="radio" name="pin" checked={pin === factory.id} onChange={() => setPin(factory.id)} />
            <span>
              {factory.id} <span className="dim">{factoryState(factory).word}</span>
            </span>
          </label>
        ))}
      </div>
    </Confirm>
  );
}

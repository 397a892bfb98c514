import { Menu } from "@base-ui/react/menu";
import { useState } from "react";
import { actOnJob } from "../../api/actions";
import { asApiError } from "../../api/problem";
import { type ActionRequest, type JobAction, PRIORITIES, type Priority } from "../../api/types";
import { plural } from "../../lib/format";
import { getJob, upsertJobs } from "../../live/jobs";
import { Button, buttonClass, WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { say, sayError } from "../../ui/toasts";

type Props = { selected: ReadonlySet<string>; clear: () => void };
type Asked = { action: JobAction; title: string; verb: string; text: string; danger: boolean } | null;

/** Acts on each selected job by itself and lists what was refused. */
export function BulkBar({ selected, clear }: Props) {
  const [asked, setAsked] = useState<Asked>(null);
  if (selected.size === 0) return null;
  const jobs = [...selected].map(getJob).filter((job) => job !== undefined);
  const running = jobs.filter((job) => job.stage === "building" || job.stage === "assigned").length;
  const n = plural(selected.size, "job");

  async function all(action: JobAction, body: ActionRequest, done: string) {
    const refused: string[] = [];
    let worked = 0;
    for (const job of jobs) {
      try {
        upsertJobs([await actOnJob(job, action, body, false)]);
        worked += 1;
      } catch (error) {
        refused.push(`${job.title}: ${asApiError(error).sentence}`);
      }
    }
    if (worked > 0) say(`${done} ${plural(worked, "job")}`);
    if (refused.length > 0) sayError(`${refused.length} refused`, new Error(refused.join("; ")));
    clear();
  }

  return (
    <div className="bulk" role="region" aria-label="Selection">
      <b>{selected.size} selected</b>
      <div className="btns push">
        <Menu.Root>
          <Menu.Trigger className={buttonClass("plain", true)}>Priority…</Menu.Trigger>
          <Menu.Portal>
            <Menu.Positioner sideOffset={4}>
              <Menu.Popup className="pop">
                {PRIORITIES.map((priority: Priority) => (
                  <Menu.Item
                    key={priority}
                    className="pop-item"
                    onClick={() => void all("priority", { priority, fresh: false }, `Priority ${priority} set for`)}
                  >
                    {priority}
                  </Menu.Item>
                ))}
              </Menu.Popup>
            </Menu.Positioner>
          </Menu.Portal>
        </Menu.Root>
        <WriteButton
          small
          onClick={() =>
            setAsked({
              action: "requeue",
              title: `Requeue ${n}?`,
              verb: `Requeue ${n}`,
              text: "Each job runs again from its checkpoint where it has one. Jobs that are running or shipped are refused.",
              danger: false,
            })
          }
        >
          Requeue…
        </WriteButton>
        <WriteButton
          small
          look="danger"
          onClick={() =>
            setAsked({
              action: "cancel",
              title: `Cancel ${n}?`,
              verb: `Cancel ${n}`,
              text: `${running} of them are running: their agents are stopped. Saved checkpoints are kept. Shipped jobs are refused.`,
              danger: true,
            })
          }
        >
          Cancel {n}…
        </WriteButton>
        <Button small look="quiet" onClick={clear}>
          Clear
        </Button>
      </div>
      {asked !== null && (
        <Confirm
          title={asked.title}
          verb={asked.verb}
          danger={asked.danger}
          reason="Reason"
          onClose={() => setAsked(null)}
          act={(message) =>
            all(
              asked.action,
              { message: message === "" ? null : message, fresh: false },
              asked.action === "cancel" ? "Cancelled" : "Requeued",
            )
          }
        >
          <p>{asked.text}</p>
        </Confirm>
      )}
    </div>
  );
}

import { Dialog } from "@base-ui/react/dialog";
import { Menu } from "@base-ui/react/menu";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { actOnJob } from "../../api/actions";
import { client, unwrap } from "../../api/client";
import { asApiError } from "../../api/problem";
import { factoriesQuery } from "../../api/queries";
import { type ActionRequest, type JobAction, PRIORITIES } from "../../api/types";
import { count, plural } from "../../lib/format";
import { getJob, upsertJobs } from "../../live/jobs";
import { Button, buttonClass, WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { Glyph } from "../../ui/Glyph";
import { say, sayError } from "../../ui/toasts";
import type { JobFilter, Total } from "./useJobList";

type Props = {
  selected: ReadonlySet<string>;
  clear: () => void;
  total: Total | null;
  matching: JobFilter;
  select: (ids: string[]) => void;
};
type Asked = { action: JobAction; title: string; verb: string; text: string; danger: boolean };
type Refused = { title: string; why: string };

/** Selecting every match reads them: this many at most, so that a slip cannot cancel a whole fleet. */
const SELECT_MAX = 1_000;
const PARALLEL = 4;

/** Acts on each selected job by itself and lists what was refused. */
export function BulkBar({ selected, clear, total, matching, select }: Props) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const [fresh, setFresh] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [refused, setRefused] = useState<Refused[]>([]);
  const { data: factories } = useQuery({ ...factoriesQuery, enabled: selected.size > 0 });
  if (selected.size === 0 && refused.length === 0) return null;
  const jobs = [...selected].map(getJob).filter((job) => job !== undefined);
  const running = jobs.filter((job) => job.stage === "building" || job.stage === "assigned").length;
  const saved = jobs.filter((job) => job.checkpoint != null).length;
  const n = plural(selected.size, "job");

  async function all(action: JobAction, body: ActionRequest, done: string) {
    const failed: Refused[] = [];
    const queue = [...jobs];
    setBusy(true);
    await Promise.all(
      Array.from({ length: PARALLEL }, async () => {
        for (let job = queue.shift(); job !== undefined; job = queue.shift()) {
          try {
            upsertJobs([await actOnJob(job, action, body, false)]);
          } catch (error) {
            failed.push({ title: job.title, why: asApiError(error).sentence });
          }
        }
      }),
    );
    setBusy(false);
    if (failed.length < jobs.length) say(`${done} ${plural(jobs.length - failed.length, "job")}`);
    setRefused(failed);
    clear();
  }

  async function selectAll() {
    try {
      const query = { ...matching, limit: SELECT_MAX };
      const page = await unwrap(client.GET("/api/fleet/jobs", { params: { query } }));
      upsertJobs(page.items);
      select(page.items.map((job) => job.id));
    } catch (error) {
      sayError("Not selected", error);
    }
  }

  const more = Math.min(total?.count ?? 0, SELECT_MAX);
  return (
    <>
      {selected.size > 0 && (
        <div className="bulk" role="region" aria-label="Selection">
          <b>{count(selected.size)} selected</b>
          {more > selected.size && (
            <button type="button" className="linkish" onClick={() => void selectAll()}>
              select {(total?.count ?? 0) > SELECT_MAX ? `the newest ${count(SELECT_MAX)}` : `all ${count(more)}`} that
              match now
            </button>
          )}
          <div className="btns push">
            <Choice
              label="Priority…"
              options={PRIORITIES}
              choose={(priority) => void all("priority", { priority, fresh: false }, `Priority ${priority} set for`)}
            />
            <Choice
              label="Pin…"
              options={["any factory", ...(factories?.items ?? []).map((factory) => factory.id)]}
              choose={(one, index) =>
                void all(
                  "pin",
                  { factoryId: index === 0 ? null : one, fresh: false },
                  index === 0 ? "Pin removed from" : `Pinned to ${one}:`,
                )
              }
            />
            <WriteButton
              small
              busy={isBusy}
              onClick={() =>
                setAsked({
                  action: "requeue",
                  title: `Requeue ${n}?`,
                  verb: `Requeue ${n}`,
                  text: "Jobs that are running, queued or shipped are refused.",
                  danger: false,
                })
              }
            >
              Requeue…
            </WriteButton>
            <WriteButton small busy={isBusy} onClick={() => void all("pause", { fresh: false }, "Paused")}>
              Pause
            </WriteButton>
            <WriteButton small busy={isBusy} onClick={() => void all("resume", { fresh: false }, "Resumed")}>
              Resume
            </WriteButton>
            <WriteButton
              small
              look="danger"
              busy={isBusy}
              onClick={() =>
                setAsked({
                  action: "cancel",
                  title: `Cancel ${n}?`,
                  verb: `Cancel ${n}`,
                  text: `${running === 0 ? "None of them is running." : `${plural(running, "agent")} of ${n} ${running === 1 ? "is" : "are"} stopped.`} Saved checkpoints are kept, and a cancelled job can be requeued. Shipped jobs are refused.`,
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
        </div>
      )}
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
              { message: message === "" ? null : message, fresh: asked.action === "requeue" && fresh },
              asked.action === "cancel" ? "Cancelled" : "Requeued",
            )
          }
        >
          <p>{asked.text}</p>
          {asked.action === "requeue" && saved > 0 && (
            <label className="check">
              <input type="checkbox" checked={fresh} onChange={(event) => setFresh(event.target.checked)} />
              Drop {plural(saved, "checkpoint")} and start from the base branch
            </label>
          )}
        </Confirm>
      )}
      {refused.length > 0 && <RefusedList items={refused} onClose={() => setRefused([])} />}
    </>
  );
}

type ChoiceProps<T extends string> = { label: string; options: readonly T[]; choose: (one: T, index: number) => void };

function Choice<T extends string>({ label, options, choose }: ChoiceProps<T>) {
  return (
    <Menu.Root>
      <Menu.Trigger className={buttonClass("plain", true)}>{label}</Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner sideOffset={4}>
          <Menu.Popup className="pop">
            {options.map((one, index) => (
              <Menu.Item key={one} className="pop-item" onClick={() => choose(one, index)}>
                {one}
              </Menu.Item>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}

function RefusedList({ items, onClose }: { items: Refused[]; onClose: () => void }) {
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="scrim" />
        <Dialog.Popup className="dialog is-floating is-wide">
          <div className="dialog-b">
            <Dialog.Title>{plural(items.length, "job")} refused</Dialog.Title>
            <ul className="refused">
              {items.map((item, index) => (
                <li key={index}>
                  <span className="st-failed">
                    <Glyph name="failed" />
                  </span>
                  <span className="wrap-any">
                    <b>{item.title}</b>: {item.why}
                  </span>
                </li>
              ))}
            </ul>
          </div>
          <div className="dialog-f">
            <Button onClick={onClose}>Close</Button>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

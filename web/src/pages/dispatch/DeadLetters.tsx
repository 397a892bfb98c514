import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { dismissJob, redriveDeadLetter } from "../../api/actions";
import { asApiError } from "../../api/problem";
import { deadLettersQuery } from "../../api/queries";
import type { DeadLetter } from "../../api/types";
import { plural, shortSha } from "../../lib/format";
import { reasonWords } from "../../lib/stages";
import { firstLine } from "../../lib/why";
import { queries } from "../../live";
import { useKeys } from "../../shell/keys";
import { Age } from "../../ui/Age";
import { Button, WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { Glyph } from "../../ui/Glyph";
import { Cost } from "../../ui/Money";
import { QueryPanel } from "../../ui/Panel";
import { say, sayError } from "../../ui/toasts";
import { Words } from "../../ui/Words";

type Asked = { kind: "redrive" | "dismiss"; items: DeadLetter[] };

export function DeadLetters() {
  const query = useQuery(deadLettersQuery);
  const [asked, setAsked] = useState<Asked | null>(null);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const items = query.data?.items ?? [];
  const chosen = items.filter((item) => selected.has(item.job.id));
  const toggle = (id: string) =>
    setSelected((old) => {
      const next = new Set(old);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  useKeys(
    items.length === 0
      ? []
      : [
          {
            keys: "r",
            label: "Requeue dead letters",
            group: "Dispatch",
            run: () => setAsked({ kind: "redrive", items: chosen.length > 0 ? chosen : items }),
          },
        ],
  );
  return (
    <QueryPanel
      title="Dead letters"
      query={query}
      sub={({ next }) => (items.length === 0 ? null : `${items.length}${next == null ? "" : "+"}, newest first`)}
      right={items.length === 0 ? undefined : <Actions items={items} chosen={chosen} ask={setAsked} />}
      isEmpty={(data) => data.items.length === 0}
      empty={
        <div>
          <h2>No dead letters</h2>
          <p className="dim">Every job was accepted. Jobs that are given up after their last retry appear here.</p>
        </div>
      }
    >
      {() => (
        <>
          <table className="table is-fixed is-rows">
            <colgroup>
              <col className="cw-36" />
              <col className="cw-184" />
              <col />
              <col className="cw-320" />
              <col className="cw-72" />
              <col className="cw-72" />
              <col className="cw-196" />
            </colgroup>
            <thead>
              <tr>
                <th>
                  <input
                    type="checkbox"
                    aria-label="Select all dead letters"
                    checked={chosen.length === items.length}
                    onChange={() =>
                      setSelected(
                        chosen.length === items.length ? new Set() : new Set(items.map((item) => item.job.id)),
                      )
                    }
                  />
                </th>
                <th>Reason</th>
                <th>Job</th>
                <th>Message</th>
                <th className="num">Cost</th>
                <th className="num">Age</th>
                <th>
                  <span className="sr">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {items.map((item) => (
                <Row
                  key={item.job.id}
                  item={item}
                  ask={setAsked}
                  isSelected={selected.has(item.job.id)}
                  toggle={() => toggle(item.job.id)}
                />
              ))}
            </tbody>
          </table>
          {asked !== null && (
            <Ask
              asked={asked}
              onClose={() => {
                setAsked(null);
                setSelected(new Set());
              }}
            />
          )}
        </>
      )}
    </QueryPanel>
  );
}

function Actions({ items, chosen, ask }: { items: DeadLetter[]; chosen: DeadLetter[]; ask: (asked: Asked) => void }) {
  if (chosen.length > 0)
    return (
      <span className="btns">
        <WriteButton small onClick={() => ask({ kind: "redrive", items: chosen })}>
          Requeue {chosen.length} selected…
        </WriteButton>
        <WriteButton small look="quiet" onClick={() => ask({ kind: "dismiss", items: chosen })}>
          Dismiss…
        </WriteButton>
      </span>
    );
  const reasons = [...new Set(items.map((item) => item.reason))];
  if (items.length === 1) return null;
  return (
    <span className="btns">
      {reasons.length > 1 &&
        reasons.map((reason) => {
          const own = items.filter((item) => item.reason === reason);
          return (
            <Button key={reason} small look="quiet" onClick={() => ask({ kind: "redrive", items: own })}>
              {reasonWords(reason)} {own.length}…
            </Button>
          );
        })}
      <WriteButton small onClick={() => ask({ kind: "redrive", items })}>
        Requeue all {items.length}…
      </WriteButton>
    </span>
  );
}

type RowProps = { item: DeadLetter; ask: (asked: Asked) => void; isSelected: boolean; toggle: () => void };

function Row({ item, ask, isSelected, toggle }: RowProps) {
  const { job } = item;
  return (
    <tr className={isSelected ? "is-sel" : undefined}>
      <td className="hide">
        <input type="checkbox" checked={isSelected} onChange={toggle} aria-label={`Select ${job.title}`} />
      </td>
      <td className="first">
        <span className="st st-dead">
          <Glyph name="dead" />
          {reasonWords(item.reason)}
        </span>
      </td>
      <td className="full">
        <Link to="/jobs/$id" params={{ id: job.id }} title={job.title}>
          {job.title}
        </Link>
      </td>
      <td className="dim full" title={job.message ?? undefined}>
        <Words text={firstLine(job.message ?? "") || "–"} />
      </td>
      <td className="num hide">
        <Cost spent={job.spent} />
      </td>
      <td className="num tr">
        <Age at={job.updatedAt} />
      </td>
      <td className="num">
        <span className="btns justify-end">
          <WriteButton small onClick={() => ask({ kind: "redrive", items: [item] })}>
            Requeue…
          </WriteButton>
          <WriteButton small look="quiet" onClick={() => ask({ kind: "dismiss", items: [item] })}>
            Dismiss…
          </WriteButton>
        </span>
      </td>
    </tr>
  );
}

function Ask({ asked, onClose }: { asked: Asked; onClose: () => void }) {
  const [fresh, setFresh] = useState(false);
  const { kind, items } = asked;
  const n = plural(items.length, "job");
  const saved = items.filter((item) => item.job.checkpoint != null);
  const [only] = items;

  async function run(reason: string) {
    const refused: string[] = [];
    const message = reason === "" ? undefined : reason;
    for (const { job } of items) {
      try {
        await (kind === "redrive" ? redriveDeadLetter(job.id, fresh, message) : dismissJob(job.id, message));
      } catch (error) {
        if (items.length === 1) throw error;
        refused.push(`${job.title}: ${asApiError(error).sentence}`);
      }
    }
    await queries.invalidateQueries({ queryKey: ["dead-letters"] });
    await queries.invalidateQueries({ queryKey: ["needs"] });
    const done = items.length - refused.length;
    if (done > 0) say(`${kind === "redrive" ? "Requeued" : "Dismissed"} ${plural(done, "job")}`);
    if (refused.length > 0) sayError(`${plural(refused.length, "job")} refused`, new Error(refused.join("; ")));
  }

  return (
    <Confirm
      title={kind === "redrive" ? `Requeue ${n}?` : `Dismiss ${plural(items.length, "dead letter")}?`}
      verb={kind === "redrive" ? `Requeue ${n}` : "Dismiss"}
      reason={kind === "redrive" ? "Message for the next run (optional)" : "Reason"}
      hint={kind === "redrive" ? "The agent of the next run gets this text" : undefined}
      onClose={onClose}
      act={run}
    >
      {kind === "dismiss" ? (
        <p>It leaves this list and its alert. It stays dead-lettered and can still be requeued.</p>
      ) : saved.length === 0 ? (
        <p>The retries start over. No checkpoint is saved: the work starts from the base branch.</p>
      ) : (
        <>
          <p>The retries start over.</p>
          <div className="choices" role="radiogroup" aria-label="Checkpoint">
            <label>
              <input type="radio" name="fresh" checked={!fresh} onChange={() => setFresh(false)} />
              <span>
                {items.length === 1 && only?.job.checkpoint != null ? (
                  <>
                    Continue from checkpoint <span className="mono">{shortSha(only.job.checkpoint.sha)}</span>
                  </>
                ) : (
                  `Continue from their checkpoints, where they have one (${saved.length} of ${items.length})`
                )}
              </span>
            </label>
            <label>
              <input type="radio" name="fresh" checked={fresh} onChange={() => setFresh(true)} />
              <span>Drop the checkpoint and start from the base branch</span>
            </label>
          </div>
        </>
      )}
    </Confirm>
  );
}

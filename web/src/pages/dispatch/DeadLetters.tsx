import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { dismissJob, redriveDeadLetter } from "../../api/actions";
import { asApiError } from "../../api/problem";
import { deadLettersQuery } from "../../api/queries";
import type { DeadLetter } from "../../api/types";
import { plural } from "../../lib/format";
import { reasonWords } from "../../lib/stages";
import { firstLine } from "../../lib/why";
import { queries } from "../../live";
import { Age } from "../../ui/Age";
import { WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { QueryPanel } from "../../ui/Panel";
import { say } from "../../ui/toasts";
import { Words } from "../../ui/Words";

type Asked = { kind: "redrive" | "dismiss"; items: DeadLetter[] };

export function DeadLetters() {
  const query = useQuery(deadLettersQuery);
  const [asked, setAsked] = useState<Asked | null>(null);
  return (
    <QueryPanel
      title="Dead letters"
      query={query}
      sub={({ items, next }) => (items.length === 0 ? null : `${items.length}${next == null ? "" : "+"}, newest first`)}
      right={
        (query.data?.items.length ?? 0) > 1 ? (
          <WriteButton small onClick={() => setAsked({ kind: "redrive", items: query.data?.items ?? [] })}>
            Requeue all {query.data?.items.length}…
          </WriteButton>
        ) : undefined
      }
      isEmpty={({ items }) => items.length === 0}
      empty={
        <div>
          <h2>No dead letters</h2>
          <p className="dim">Jobs that are given up after their last retry appear here.</p>
        </div>
      }
    >
      {({ items }) => (
        <>
          <table className="table is-fixed is-rows">
            <colgroup>
              <col className="cw-184" />
              <col />
              <col className="cw-40p" />
              <col className="cw-88" />
              <col className="cw-184" />
            </colgroup>
            <thead>
              <tr>
                <th>Reason</th>
                <th>Job</th>
                <th>Message</th>
                <th className="num">Age</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {items.map((item) => (
                <Row key={item.job.id} item={item} ask={setAsked} />
              ))}
            </tbody>
          </table>
          {asked !== null && <Ask asked={asked} onClose={() => setAsked(null)} />}
        </>
      )}
    </QueryPanel>
  );
}

function Row({ item, ask }: { item: DeadLetter; ask: (asked: Asked) => void }) {
  const { job } = item;
  return (
    <tr>
      <td className="first st-dead">{reasonWords(item.reason)}</td>
      <td className="full">
        <Link to="/jobs/$id" params={{ id: job.id }} title={job.title}>
          {job.title}
        </Link>
      </td>
      <td className="dim full" title={job.message ?? undefined}>
        <Words text={firstLine(job.message ?? "") || "–"} />
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
  async function run(reason: string) {
    const refused: string[] = [];
    for (const { job } of items) {
      const message = reason === "" ? undefined : reason;
      await (kind === "redrive" ? redriveDeadLetter(job.id, fresh, message) : dismissJob(job.id, message)).catch(
        (error) => {
          if (items.length === 1) throw error;
          refused.push(`${job.title}: ${asApiError(error).sentence}`);
        },
      );
    }
    await queries.invalidateQueries({ queryKey: ["dead-letters"] });
    say(
      kind === "redrive" ? `Requeued ${plural(items.length - refused.length, "job")}` : "Dismissed",
      refused.join("; "),
    );
  }
  return (
    <Confirm
      title={kind === "redrive" ? `Requeue ${n}?` : "Dismiss this dead letter?"}
      verb={kind === "redrive" ? `Requeue ${n}` : "Dismiss"}
      reason="Reason"
      onClose={onClose}
      act={run}
    >
      {kind === "redrive" ? (
        <>
          <p>The retries start over. A checkpoint is kept unless you drop it.</p>
          <label className="check">
            <input type="checkbox" checked={fresh} onChange={(event) => setFresh(event.target.checked)} />
            Drop the checkpoint and start from the base branch
          </label>
        </>
      ) : (
        <p>It leaves this list and its alert. It stays dead-lettered and can still be requeued.</p>
      )}
    </Confirm>
  );
}

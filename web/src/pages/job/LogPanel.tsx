import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { asApiError } from "../../api/problem";
import { jobRunsQuery } from "../../api/queries";
import type { JobDetail } from "../../api/types";
import { bytes, count, plural } from "../../lib/format";
import { type LogBuffer, useLog } from "../../live/log";
import { Ansi } from "../../ui/Ansi";
import { Panel, Skeleton } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";
import { LogView } from "./LogView";

const TAIL = 15;

export function LogPanel({ job, run, full = false }: { job: JobDetail; run?: number; full?: boolean }) {
  const { data: runs } = useQuery(jobRunsQuery(job.id));
  const chosen = runs?.items.find((one) => one.n === run);
  const [isWhole, setWhole] = useState(false);
  const buffer = useLog(job.id, run === undefined ? undefined : chosen?.epoch, isWhole);
  const shown = chosen?.n ?? runs?.items.find((one) => String(one.epoch) === buffer.epoch)?.n;
  const isMissing = buffer.error !== null && asApiError(buffer.error).status === 404;
  const isTail = buffer.start > 0;
  const lines = isTail
    ? `last ${plural(full ? buffer.count : Math.min(TAIL, buffer.count), "line")}`
    : full || buffer.count <= TAIL
      ? plural(buffer.count + buffer.dropped, "line")
      : `last ${TAIL} of ${count(buffer.count + buffer.dropped)} lines`;
  const label = `${shown === undefined ? "" : `run ${shown}, `}${lines}`;
  return (
    <Panel
      title="Log"
      sub={buffer.hasAnswer ? label : null}
      right={
        full && (runs?.items.length ?? 0) > 1 ? (
          <RunPicker id={job.id} runs={runs?.items.map((one) => one.n) ?? []} run={shown} />
        ) : undefined
      }
      footer={
        full || !buffer.hasAnswer || buffer.count === 0 ? undefined : (
          <Link className="link" to="/jobs/$id" params={{ id: job.id }} search={{ tab: "log" }}>
            Full log
          </Link>
        )
      }
    >
      {buffer.error !== null && !isMissing && <PanelError error={buffer.error} />}
      {!buffer.hasAnswer ? (
        isMissing ? (
          <p className="panel-b dim">No output yet.</p>
        ) : (
          buffer.error === null && <Skeleton />
        )
      ) : buffer.count === 0 ? (
        <p className="panel-b dim">{buffer.isComplete ? "The run printed nothing." : "No output yet."}</p>
      ) : full ? (
        <>
          {isTail && (
            <p className="small dim log-note">
              {bytes(buffer.start)} of earlier output are not shown.{" "}
              <button type="button" className="linkish" onClick={() => setWhole(true)}>
                Read from the start
              </button>
            </p>
          )}
          <LogView buffer={buffer} job={job} epoch={chosen?.epoch} />
        </>
      ) : (
        <Tail buffer={buffer} />
      )}
    </Panel>
  );
}

function Tail({ buffer }: { buffer: LogBuffer }) {
  const first = Math.max(0, buffer.count - TAIL);
  return (
    <ol className="log is-bare">
      {Array.from({ length: buffer.count - first }, (_, index) => (
        <li key={first + index}>
          <span className="ln">{buffer.start > 0 ? "" : first + index + 1 + buffer.dropped}</span>
          <span className="tx">
            <Ansi text={buffer.line(first + index)} />
          </span>
        </li>
      ))}
    </ol>
  );
}

function RunPicker({ id, runs, run }: { id: string; runs: number[]; run: number | undefined }) {
  const navigate = useNavigate();
  return (
    <label className="st">
      <span className="dim small">Run</span>
      <select
        className="select is-small"
        value={run ?? ""}
        onChange={(event) =>
          void navigate({ to: "/jobs/$id", params: { id }, search: { tab: "log", run: Number(event.target.value) } })
        }
      >
        {[...runs]
          .sort((a, b) => b - a)
          .map((n) => (
            <option key={n} value={n}>
              {n}
            </option>
          ))}
      </select>
    </label>
  );
}

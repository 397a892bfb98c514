import { useQuery } from "@tanstack/react-query";
import { jobRunsQuery } from "../../api/queries";
import type { JobDetail, JobEvent, Run, StageName } from "../../api/types";
import { clock, duration, money } from "../../lib/format";
import { outcomeWords, STAGE } from "../../lib/stages";
import { useNow } from "../../live";

const ENDED = new Set<StageName>(["shipped", "failed", "dead_letter"]);
export type Band = { stage: StageName; from: number; to: number };

/** The stages over time: one band per stage, neighbours of one stage joined. */
export function bandsOf(events: readonly JobEvent[], end: number): Band[] {
  const bands: Band[] = [];
  for (const event of events) {
    const at = Date.parse(event.at);
    const last = bands.at(-1);
    if (last?.stage === event.stage) continue;
    if (last !== undefined) last.to = at;
    bands.push({ stage: event.stage, from: at, to: end });
  }
  return bands.filter((band) => band.to > band.from);
}

/** Stage bands, runs, checkpoints and lost leases on one axis. Positions in percent, so that it fits any width. */
export function Gantt({ job, events }: { job: JobDetail; events: JobEvent[] }) {
  const { data } = useQuery(jobRunsQuery(job.id));
  const isOver = ENDED.has(job.stage);
  const now = useNow(isOver ? 3_600_000 : 2_000);
  const first = events[0];
  const last = events.at(-1);
  if (first === undefined || last === undefined) return null;
  const from = Date.parse(first.at);
  const to = Math.max(isOver ? Date.parse(last.at) : now, from + 1_000);
  const x = (at: number) => ((Math.min(Math.max(at, from), to) - from) / (to - from)) * 100;
  const runs = data?.items ?? [];
  const marks = events.filter((event) => event.kind === "checkpointed" || event.kind === "reaped");
  return (
    <div
      className="gtt"
      role="img"
      aria-label={`${bandsOf(events, to)
        .map((band) => `${STAGE[band.stage].word} ${duration(band.to - band.from)}`)
        .join(", ")}`}
    >
      <div className="gtt-row">
        {bandsOf(events, to).map((band) => (
          <span
            key={band.from}
            className={`gtt-band ${STAGE[band.stage].className}`}
            style={{ left: `${x(band.from)}%`, width: `${x(band.to) - x(band.from)}%` }}
            title={`${STAGE[band.stage].word} ${duration(band.to - band.from)}`}
          >
            {x(band.to) - x(band.from) > 9 && (
              <span>
                {STAGE[band.stage].word} {duration(band.to - band.from)}
              </span>
            )}
          </span>
        ))}
      </div>
      {runs.length > 0 && (
        <div className="gtt-row is-runs">
          {runs.map((run) => (
            <RunBar key={run.n} run={run} x={x} to={to} />
          ))}
        </div>
      )}
      {marks.length > 0 && (
        <div className="gtt-row is-marks">
          {marks.map((event) => (
            <i
              key={event.seq}
              className={event.kind === "reaped" ? "is-lost" : ""}
              style={{ left: `${x(Date.parse(event.at))}%` }}
              title={`${clock(event.at)} ${event.text ?? event.kind}`}
            />
          ))}
        </div>
      )}
      <div className="gtt-axis">
        <span>{clock(from)}</span>
        <span>{isOver ? clock(to) : "now"}</span>
      </div>
    </div>
  );
}

function RunBar({ run, x, to }: { run: Run; x: (at: number) => number; to: number }) {
  const start = Date.parse(run.grantedAt);
  const end = run.endedAt == null ? to : Date.parse(run.endedAt);
  const width = x(end) - x(start);
  const cost = run.insights?.costUsd;
  const label = `run ${run.n} on ${run.factory}${cost == null ? "" : `, ${money(cost)}`}`;
  return (
    <span
      className={`gtt-run ${run.endedAt == null ? "is-live" : ""}`}
      style={{ left: `${x(start)}%`, width: `${Math.max(width, 0.5)}%` }}
      title={`${label}: ${outcomeWords(run.outcome).word}`}
    >
      {width > 12 ? label : width > 4 ? run.n : ""}
    </span>
  );
}

import { useQuery } from "@tanstack/react-query";
import { jobRunsQuery } from "../../api/queries";
import type { JobDetail, JobEvent, Run, StageName } from "../../api/types";
import { clock, clockShort, duration, money, took } from "../../lib/format";
import { useIsNarrow } from "../../lib/narrow";
import { outcomeWords, STAGE } from "../../lib/stages";
import { useNow } from "../../live";
import { Glyph } from "../../ui/Glyph";

const ENDED = new Set<StageName>(["shipped", "failed", "dead_letter"]);
/** Marks closer than this, in percent of the width, are drawn as one. */
const MARK_GAP = 1.1;
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

const STEPS_S = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800, 604_800];

/** Round times between two, `most` + 1 at most. */
export function ticksOf(from: number, to: number, most = 5): number[] {
  const step = (STEPS_S.find((seconds) => (to - from) / (seconds * 1_000) <= most) ?? 2_592_000) * 1_000;
  const ticks: number[] = [];
  for (let at = Math.ceil(from / step) * step; at < to; at += step) ticks.push(at);
  return ticks;
}

/** Stage bands, runs, checkpoints and lost leases on one axis. Positions in percent, so that it fits any width. */
export function Gantt({ job, events }: { job: JobDetail; events: JobEvent[] }) {
  const { data } = useQuery(jobRunsQuery(job.id));
  const isOver = ENDED.has(job.stage);
  const isNarrow = useIsNarrow();
  const now = useNow(isOver ? 3_600_000 : 2_000);
  const first = events[0];
  const last = events.at(-1);
  if (first === undefined || last === undefined) return null;
  const from = Date.parse(first.at);
  const to = Math.max(isOver ? Date.parse(last.at) : now, from + 1_000);
  const x = (at: number) => ((Math.min(Math.max(at, from), to) - from) / (to - from)) * 100;
  const bands = bandsOf(events, to);
  const runs = data?.items ?? [];
  const lost = events.filter((event) => event.kind === "reaped");
  const saved = spaced(
    events.filter((event) => event.kind === "checkpointed"),
    (event) => x(Date.parse(event.at)),
  );
  const isLong = to - from > 3 * 60_000;
  // A label takes 52 px, "now" 24 px: 6 % of a wide timeline, 16 % of that of a phone.
  const ticks = ticksOf(from, to, isNarrow ? 2 : 5).filter(
    (at) => x(at) > (isNarrow ? 9 : 4) && x(at) < (isNarrow ? 82 : 92),
  );
  return (
    <>
      <div
        className="gtt"
        role="img"
        aria-label={bands.map((band) => `${STAGE[band.stage].word} ${duration(band.to - band.from)}`).join(", ")}
      >
        <div className="gtt-axis">
          {ticks.map((at) => (
            <span key={at} style={{ left: `${x(at)}%` }}>
              {isLong ? clockShort(at) : clock(at)}
            </span>
          ))}
          {!isOver && <span className="is-now">now</span>}
        </div>
        <div className="gtt-plot">
          {ticks.map((at) => (
            <i key={at} className="gtt-line" style={{ left: `${x(at)}%` }} />
          ))}
          {!isOver && <i className="gtt-line is-now" />}
          <div className="gtt-row">
            {bands.map((band) => (
              <BandBar key={band.from} band={band} x={x} isNarrow={isNarrow} />
            ))}
          </div>
          {runs.length > 0 && (
            <div className="gtt-row is-runs">
              {runs.map((run) => (
                <RunBar key={run.n} run={run} x={x} to={to} isNarrow={isNarrow} />
              ))}
            </div>
          )}
          {saved.length + lost.length > 0 && (
            <div className="gtt-row is-marks">
              {[...saved, ...lost].map((event) => (
                <i
                  key={event.seq}
                  className={event.kind === "reaped" ? "is-lost" : ""}
                  style={{ left: `${x(Date.parse(event.at))}%` }}
                  title={`${clock(event.at)} ${event.text ?? event.kind}`}
                />
              ))}
            </div>
          )}
        </div>
      </div>
      <p className="gantt-key">
        {saved.length > 0 && (
          <span>
            <Glyph name="checkpoint" />
            checkpoint
          </span>
        )}
        {lost.length > 0 && (
          <span className="is-bad">
            <Glyph name="failed" />
            lease expired
          </span>
        )}
        <span>times in UTC</span>
      </p>
    </>
  );
}

function spaced(events: JobEvent[], x: (event: JobEvent) => number): JobEvent[] {
  let last = Number.NEGATIVE_INFINITY;
  return events.filter((event) => {
    const at = x(event);
    if (at - last < MARK_GAP) return false;
    last = at;
    return true;
  });
}

type BarProps = { x: (at: number) => number; isNarrow: boolean };

function BandBar({ band, x, isNarrow }: BarProps & { band: Band }) {
  const width = x(band.to) - x(band.from);
  const label = `${STAGE[band.stage].word} ${took(band.to - band.from)}`;
  return (
    <span
      className={`gtt-band ${STAGE[band.stage].className}`}
      style={{ left: `${x(band.from)}%`, width: `${width}%` }}
      title={label}
    >
      {width > (isNarrow ? 32 : 12) && <span>{label}</span>}
    </span>
  );
}

function RunBar({ run, x, to, isNarrow }: BarProps & { run: Run; to: number }) {
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
      {width > (isNarrow ? 34 : 14) ? label : width > 4 ? run.n : ""}
    </span>
  );
}

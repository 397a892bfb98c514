import type { MetricsHistory } from "../api/types";

export type Minute = { at: number; reads: number; writes: number; claims: number };

/** Operations by minute, oldest first. A minute without a point was idle: the coordinator records only what changes. */
export function perMinute(history: MetricsHistory, now: number, minutes: number): Minute[] {
  const last = Math.floor(now / 60_000);
  const buckets = Array.from({ length: minutes }, (_, index) => ({
    at: (last - minutes + 1 + index) * 60_000,
    reads: 0,
    writes: 0,
    claims: 0,
  }));
  for (const point of history.points) {
    const bucket = buckets[Math.floor(Date.parse(point.at) / 60_000) - (last - minutes + 1)];
    if (bucket === undefined) continue;
    bucket.reads += point.storeOps.read;
    bucket.writes += point.storeOps.write;
    bucket.claims += point.claims;
  }
  return buckets;
}

/** The minutes since the first point: nothing is known of those before it. */
export function knownMinutes(history: MetricsHistory, minutes: readonly Minute[]): Minute[] {
  const first = history.points[0];
  if (first === undefined) return [];
  const from = Math.floor(Date.parse(first.at) / 60_000) * 60_000;
  return minutes.filter((minute) => minute.at >= from);
}

export type Span = { from: number; to: number };

/** The longest stretch without a store operation, of at least `least` minutes. */
export function longestIdle(minutes: readonly Minute[], least = 3): Span | null {
  let best: Span | null = null;
  let start = -1;
  for (let index = 0; index <= minutes.length; index += 1) {
    const minute = minutes[index];
    if (minute !== undefined && minute.reads + minute.writes === 0) {
      if (start === -1) start = index;
      continue;
    }
    if (start !== -1 && index - start >= least && (best === null || index - start > best.to - best.from))
      best = { from: start, to: index };
    start = -1;
  }
  return best;
}

/** Lag of the last hour: the worst p99, and the latest p50. */
export function lagOf(history: MetricsHistory): { p50: number; p99: number } | null {
  let p50: number | null = null;
  let p99 = 0;
  for (const { lagMs } of history.points) {
    if (lagMs == null) continue;
    p50 = lagMs.p50;
    p99 = Math.max(p99, lagMs.p99);
  }
  return p50 === null ? null : { p50, p99 };
}

/** The mean share of the seats in use, in percent, from the first point until now. */
export function utilisationOf(history: MetricsHistory, now: number): number | null {
  let [sum, time] = [0, 0];
  history.points.forEach((point, index) => {
    const next = history.points[index + 1];
    const span = Math.max(1, (next === undefined ? now : Date.parse(next.at)) - Date.parse(point.at));
    sum += span * (point.seatsTotal === 0 ? 0 : (point.seatsUsed / point.seatsTotal) * 100);
    time += span;
  });
  return time === 0 ? null : Math.round(sum / time);
}

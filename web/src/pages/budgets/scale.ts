import type { BurnDown } from "../../api/types";

export type Box = { left: number; right: number; top: number; bottom: number };

/** What a chart shows: its times, its highest amount, and the end of the projection. */
export type View = {
  from: number;
  until: number;
  now: number;
  top: number;
  projected: { at: number; usd: number } | null;
};

const HOUR_MS = 3_600_000;

/** Never without width or height, whatever was spent: no amount and no time is divided by zero. */
export function frame(chart: BurnDown): View {
  const from = Date.parse(chart.from);
  const now = Date.parse(chart.points.at(-1)?.at ?? chart.from);
  const spent = chart.points.at(-1)?.spentUsd ?? 0;
  const { usdPerHour, atEndUsd, reachedAt } = chart.projection;
  const isOpen = chart.until == null;
  // Without an end the chart shows a quarter more than has passed.
  const until = isOpen ? now + Math.max(HOUR_MS, (now - from) / 4) : Date.parse(chart.until ?? chart.from);
  const end = reachedAt == null ? until : Math.min(until, Date.parse(reachedAt));
  const later = end <= now || usdPerHour <= 0 ? null : end;
  const usd = reachedAt == null && atEndUsd != null ? atEndUsd : spent + (usdPerHour * (end - now)) / HOUR_MS;
  const projected = later === null ? null : { at: later, usd };
  const highest = Math.max(spent, chart.ceilingUsd ?? 0, projected?.usd ?? 0);
  return { from, until: Math.max(until, from + 1), now, top: niceTop(highest), projected };
}

/** The position of an amount at a time. */
export function place(view: View, box: Box, time: number, usd: number): { x: number; y: number } {
  const part = (time - view.from) / (view.until - view.from);
  const x = box.left + Math.min(1, Math.max(0, part)) * (box.right - box.left);
  const y = box.bottom - Math.min(1, usd / view.top) * (box.bottom - box.top);
  return { x: round(x), y: round(y) };
}

/** The amounts with a line across the chart. */
export function axis(top: number): number[] {
  return [0, 0.25, 0.5, 0.75, 1].map((part) => part * top);
}

/** The next round amount; 1 for nothing. */
export function niceTop(value: number): number {
  if (!(value > 0) || !Number.isFinite(value)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 2, 4, 5, 10].find((one) => one * power >= value * 1.05) ?? 20;
  return factor * power;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

import { clockShort, count } from "../lib/format";
import type { Minute } from "../lib/history";
import { longestIdle } from "../lib/history";

const WIDTH = 600;
const HEIGHT = 168;
const LEFT = 40;
const TOP = 8;
const BOTTOM = 20;

/** Store operations per minute as bars; the table for screen readers says the same. */
export function MinuteBars({ minutes }: { minutes: readonly Minute[] }) {
  const top = niceTop(Math.max(1, ...minutes.map((minute) => minute.reads + minute.writes)));
  const inner = HEIGHT - TOP - BOTTOM;
  const step = (WIDTH - LEFT) / minutes.length;
  const y = (value: number) => TOP + inner - (value / top) * inner;
  const idle = longestIdle(minutes, 4);
  return (
    <svg className="chart is-bars" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={summary(minutes)}>
      {[0, 0.5, 1].map((part) => (
        <g key={part}>
          <path className="grid" d={`M${LEFT} ${y(top * part)}H${WIDTH}`} />
          <text x={LEFT - 8} y={y(top * part) + 4} textAnchor="end">
            {count(top * part)}
          </text>
        </g>
      ))}
      {minutes.map((minute, index) => {
        const sum = minute.reads + minute.writes;
        if (sum === 0) return null;
        const x = LEFT + index * step + 1;
        const width = Math.max(1, step - 2);
        return (
          <g key={minute.at}>
            <title>{`${clockShort(minute.at)} UTC: ${count(minute.writes)} writes, ${count(minute.reads)} reads`}</title>
            <rect className="s1" x={x} width={width} y={y(minute.writes)} height={y(0) - y(minute.writes)} />
            <rect className="s2" x={x} width={width} y={y(sum)} height={y(minute.writes) - y(sum)} />
          </g>
        );
      })}
      {idle !== null && (
        <text className="k" x={LEFT + ((idle.from + idle.to) / 2) * step} y={y(0) - 8} textAnchor="middle">
          idle: 0
        </text>
      )}
      {minutes.map((minute, index) =>
        (minute.at / 60_000) % 15 === 0 && index > 2 && index < minutes.length - 2 ? (
          <text key={minute.at} x={LEFT + (index + 0.5) * step} y={HEIGHT - 4} textAnchor="middle">
            {clockShort(minute.at)}
          </text>
        ) : null,
      )}
    </svg>
  );
}

function niceTop(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const found = [1, 2, 4, 5, 10].find((factor) => factor * power >= value) ?? 10;
  return Math.max(4, found * power);
}

function summary(minutes: readonly Minute[]): string {
  const sums = minutes.map((minute) => minute.reads + minute.writes);
  const busy = sums.filter((sum) => sum > 0).length;
  return `Store operations of the last ${minutes.length} minutes: ${busy} minutes with operations, at most ${count(Math.max(0, ...sums))} in one, ${minutes.length - busy} minutes with none`;
}

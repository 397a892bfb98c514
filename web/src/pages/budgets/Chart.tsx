import { useLayoutEffect, useRef, useState } from "react";
import type { BurnDown } from "../../api/types";
import { exact, money } from "../../lib/format";
import { axis, type Box, frame, place } from "./scale";
import { dayAndTime } from "./words";

const HEIGHT = 240;
/** The width before the first layout, and the smallest that is drawn. */
const WIDTH = 800;
const WIDTH_MIN = 240;

/** What was spent over the period, the ceiling, where it leads, and when the product was paused. */
export function Chart({ chart }: { chart: BurnDown }) {
  const [isTable, setTable] = useState(false);
  return (
    <figure className="chart-b">
      {isTable ? <PointTable chart={chart} /> : <Picture chart={chart} />}
      <figcaption className="key">
        <span>
          <svg className="sw" aria-hidden="true">
            <line className="k-line" x2="12" y1="5" y2="5" />
          </svg>
          spent
        </span>
        {frame(chart).projected !== null && (
          <span>
            <svg className="sw" aria-hidden="true">
              <line className="k-proj" x2="12" y1="5" y2="5" />
            </svg>
            projection
          </span>
        )}
        {chart.ceilingUsd != null && (
          <span>
            <svg className="sw" aria-hidden="true">
              <line className="k-ceil" x2="12" y1="5" y2="5" />
            </svg>
            ceiling
          </span>
        )}
        {chart.pauses.length > 0 && (
          <span>
            <svg className="sw" aria-hidden="true">
              <rect className="k-pause" width="12" height="10" />
            </svg>
            paused
          </span>
        )}
        <button type="button" className="linkish" onClick={() => setTable(!isTable)}>
          {isTable ? "Show as chart" : "Show as table"}
        </button>
      </figcaption>
    </figure>
  );
}

/** Drawn as wide as its panel, so that text and lines have the same size on a phone. */
function useWidth() {
  const host = useRef<SVGSVGElement>(null);
  const [width, setWidth] = useState(WIDTH);
  useLayoutEffect(() => {
    const element = host.current;
    if (element === null) return;
    const measure = () => setWidth(Math.max(WIDTH_MIN, Math.round(element.getBoundingClientRect().width)));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return { host, width };
}

function Picture({ chart }: { chart: BurnDown }) {
  const { host, width } = useWidth();
  const box: Box = { left: 56, right: width - 8, top: 16, bottom: HEIGHT - 24 };
  const view = frame(chart);
  const at = (time: number, usd: number) => place(view, box, time, usd);
  const points = chart.points.map((point) => at(Date.parse(point.at), point.spentUsd));
  const last = points.at(-1);
  const end = view.projected === null ? null : at(view.projected.at, view.projected.usd);
  return (
    <svg ref={host} className="chart" viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={summary(chart)}>
      <title>{summary(chart)}</title>
      {axis(view.top).map((usd) => (
        <g key={usd}>
          <line className="grid" x1={box.left} x2={box.right} y1={at(view.from, usd).y} y2={at(view.from, usd).y} />
          <text x={box.left - 8} y={at(view.from, usd).y + 4} textAnchor="end">
            {money(usd)}
          </text>
        </g>
      ))}
      {chart.pauses.map((pause) => {
        const from = at(Math.max(Date.parse(pause.from), view.from), 0).x;
        const until = at(pause.until == null ? view.now : Date.parse(pause.until), 0).x;
        return (
          <rect
            key={pause.from}
            className="pause"
            x={from}
            y={box.top}
            width={Math.max(1, until - from)}
            height={box.bottom - box.top}
          >
            <title>{`paused by ${pause.by}${pause.reason == null ? "" : `: ${pause.reason}`}`}</title>
          </rect>
        );
      })}
      <path className="line" d={`M${points.map(({ x, y }) => `${x},${y}`).join(" ")}`} />
      {last !== undefined && end !== null && <path className="proj" d={`M${last.x},${last.y} L${end.x},${end.y}`} />}
      {chart.ceilingUsd != null && (
        <>
          <line
            className="ceil"
            x1={box.left}
            x2={box.right}
            y1={at(view.from, chart.ceilingUsd).y}
            y2={at(view.from, chart.ceilingUsd).y}
          />
          <text className="ceil-t" x={box.right} y={at(view.from, chart.ceilingUsd).y - 4} textAnchor="end">
            ceiling {money(chart.ceilingUsd)}
          </text>
        </>
      )}
      {last !== undefined && <circle className="dot" cx={last.x} cy={last.y} r="4" />}
      <text x={box.left} y={HEIGHT - 4}>
        {dayAndTime(chart.from)}
      </text>
      <text x={box.right} y={HEIGHT - 4} textAnchor="end">
        {dayAndTime(new Date(view.until).toISOString())}
      </text>
    </svg>
  );
}

function PointTable({ chart }: { chart: BurnDown }) {
  return (
    <table className="table">
      <thead>
        <tr>
          <th>Until</th>
          <th className="num">Spent</th>
        </tr>
      </thead>
      <tbody>
        {chart.points.map((point) => (
          <tr key={point.at}>
            <td>{exact(point.at)}</td>
            <td className="num">{money(point.spentUsd)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function summary(chart: BurnDown): string {
  const spent = chart.points.at(-1)?.spentUsd ?? 0;
  const ceiling = chart.ceilingUsd == null ? "no ceiling" : `a ceiling of ${money(chart.ceilingUsd)}`;
  const reached = chart.projection.reachedAt;
  const projection = reached == null ? "" : `, reached at ${exact(reached)}`;
  const what = spent === 0 ? "nothing spent in this period" : `${money(spent)} spent`;
  return `Spending of ${chart.productId}: ${what}, ${ceiling}${projection}`;
}

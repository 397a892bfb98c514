import { useQuery } from "@tanstack/react-query";
import { historyQuery, metricsQuery } from "../../api/queries";
import { clockShort, count, plural } from "../../lib/format";
import { knownMinutes, longestIdle, perMinute } from "../../lib/history";
import { useNow } from "../../live";
import { MinuteBars } from "../../ui/Bars";
import { QueryPanel } from "../../ui/Panel";

const MINUTES = 60;

/** Proves that an idle fleet costs nothing: a minute without work has no bar. */
export function StoreOperations() {
  const query = useQuery(historyQuery);
  const now = useNow(20_000);
  return (
    <QueryPanel
      title="Store operations per minute"
      query={query}
      sub={(history) => {
        const last = perMinute(history, now, MINUTES).at(-1);
        return `${count((last?.reads ?? 0) + (last?.writes ?? 0))} in this minute`;
      }}
    >
      {(history) => {
        const minutes = perMinute(history, now, MINUTES);
        const known = knownMinutes(history, minutes);
        const idle = longestIdle(known, 1);
        const none = known.filter((minute) => minute.reads + minute.writes === 0).length;
        const from = idle === null ? undefined : known[idle.from];
        const to = idle === null ? undefined : known[idle.to - 1];
        return (
          <div className="chart-b">
            <MinuteBars minutes={minutes} />
            <p className="key">
              <span>
                <Swatch className="s1" /> writes
              </span>
              <span>
                <Swatch className="s2" /> reads
              </span>
              <span>
                {none === 0
                  ? "no idle minute in this hour"
                  : `${none} of the last ${plural(known.length, "minute")} without an operation${
                      from === undefined || to === undefined
                        ? ""
                        : `, longest ${clockShort(from.at)} to ${clockShort(to.at + 60_000)} UTC`
                    }`}
              </span>
            </p>
            <SinceStart />
          </div>
        );
      }}
    </QueryPanel>
  );
}

function Swatch({ className }: { className: string }) {
  return (
    <svg className={`sw ${className}`} viewBox="0 0 12 10" aria-hidden="true">
      <rect width="12" height="10" fill="currentColor" />
    </svg>
  );
}

/** By purpose and by kind, since the coordinator started. */
function SinceStart() {
  const { data } = useQuery(metricsQuery);
  if (data === undefined) return null;
  const purposes = Object.entries(data.storeUse ?? {}).map(
    ([purpose, { read, write }]) => [purpose, `${plural(read, "read")}, ${plural(write, "record")} written`] as const,
  );
  const kinds = Object.entries(data.storeOperations).map(([kind, value]) => [kind, count(value)] as const);
  return (
    <>
      <Figures title="By purpose, since the coordinator started" figures={purposes} />
      <Figures title="By kind, since the coordinator started" figures={kinds} />
    </>
  );
}

function Figures({ title, figures }: { title: string; figures: (readonly [string, string])[] }) {
  return (
    <details className="ops-d">
      <summary className="small dim">{title}</summary>
      <dl className="ops">
        {figures
          .sort(([a], [b]) => a.localeCompare(b))
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name.replaceAll("_", " ")}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </details>
  );
}

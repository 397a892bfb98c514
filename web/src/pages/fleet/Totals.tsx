import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { factoriesQuery, historyQuery, metricsQuery } from "../../api/queries";
import type { FactoryView, Metrics, MetricsHistory, StageName } from "../../api/types";
import { count, plural, took } from "../../lib/format";
import { knownMinutes, lagOf, perMinute, utilisationOf } from "../../lib/history";
import { useNow } from "../../live";
import { PanelError } from "../../ui/PanelError";
import { Seats, seatsOf } from "../../ui/Seats";
import { Spark } from "../../ui/Spark";

export function Totals() {
  const query = useQuery(metricsQuery);
  const { data: metrics, error } = query;
  const { data: history } = useQuery(historyQuery);
  if (metrics === undefined) {
    return error === null ? (
      <div className="totals is-loading" aria-hidden="true" />
    ) : (
      <div className="panel">
        <PanelError error={error} retry={() => void query.refetch()} />
      </div>
    );
  }
  const of = (stage: StageName) => metrics.jobs[stage] ?? 0;
  return (
    <dl className="totals" aria-label="Totals">
      <SeatTotal metrics={metrics} history={history} />
      <Total
        name="Waiting"
        value={count(of("queued") + of("blocked"))}
        sub={`${count(of("queued"))} queued, ${count(of("blocked"))} blocked`}
      />
      <Total
        name="Building"
        value={count(of("building"))}
        more={of("assigned") > 0 ? `+ ${count(of("assigned"))} assigned` : null}
        sub={`${count(of("testing"))} ready to ship, ${count(of("shipped"))} shipped`}
      />
      <Lag metrics={metrics} history={history} />
      <StoreTotal metrics={metrics} history={history} />
    </dl>
  );
}

const SPARK_MINUTES = 30;

function Lag({ metrics, history }: { metrics: Metrics; history: MetricsHistory | undefined }) {
  const lag = history === undefined ? null : lagOf(history);
  const values = (history?.points ?? []).flatMap((point) => (point.lagMs == null ? [] : [point.lagMs.p99]));
  return (
    <Total
      name="Dispatch lag"
      value={took(lag?.p50 ?? metrics.dispatchLagMs)}
      sub={lag === null ? `${plural(metrics.depth, "offer")} open` : `median; 99 % within ${took(lag.p99)}`}
      spark={<Spark values={values} label="p99 of the dispatch lag in the last hour" />}
    />
  );
}

function StoreTotal({ metrics, history }: { metrics: Metrics; history: MetricsHistory | undefined }) {
  const now = useNow(20_000);
  if (history === undefined) {
    const sum = Object.values(metrics.storeOperations).reduce((all, one) => all + one, 0);
    return <Total name="Store operations" value={count(sum)} sub="since the coordinator started" />;
  }
  const minutes = knownMinutes(history, perMinute(history, now, SPARK_MINUTES));
  const sums = minutes.map((minute) => minute.reads + minute.writes);
  const current = sums.at(-1) ?? 0;
  const idle = sums.filter((sum) => sum === 0).length;
  return (
    <Total
      name="Store operations"
      value={count(current)}
      more="/min"
      sub={idleWords(idle, minutes.length)}
      spark={<Spark values={sums} label={`store operations per minute in the last ${SPARK_MINUTES} minutes`} />}
    />
  );
}

function idleWords(idle: number, known: number): string {
  if (idle === 0) return "no idle minute lately";
  const minutes = plural(known, "minute");
  return idle === known ? `idle for the last ${minutes}` : `${count(idle)} of the last ${minutes} were idle`;
}

function SeatTotal({ metrics, history }: { metrics: Metrics; history: MetricsHistory | undefined }) {
  const now = useNow(60_000);
  const mean = history === undefined ? null : utilisationOf(history, now);
  const { data } = useQuery(factoriesQuery);
  const reserved = data?.items.reduce((sum, factory) => sum + seatsOf(factory).reserved, 0) ?? 0;
  const unusable = data?.items.reduce((sum, factory) => sum + unusableSeats(factory), 0) ?? 0;
  const free = Math.max(0, metrics.seats - metrics.seatsUsed - unusable);
  return (
    <div>
      <dt>Seats in use</dt>
      <dd className="v">
        {count(metrics.seatsUsed)} <span>of {count(metrics.seats)}</span>
        <Seats used={Math.max(0, metrics.seatsUsed - reserved)} reserved={reserved} total={metrics.seats} />
      </dd>
      <dd className="s">
        {metrics.seats === 0
          ? "no live factory"
          : free + unusable === 0
            ? "all in use"
            : `${count(free)} free${unusable > 0 ? `, ${count(unusable)} not available` : ""}`}
        {mean !== null && metrics.seats > 0 && ` · ${mean} % used in the last hour`}
      </dd>
    </div>
  );
}

/** Free seats that get no job: the metrics count those of draining and absent factories too. */
function unusableSeats(factory: FactoryView): number {
  const takesJobs = factory.presence === "live" && !factory.draining;
  return takesJobs ? 0 : Math.max(0, factory.seatLimit - factory.seats.length);
}

type TotalProps = { name: string; value: string; more?: string | null; sub: ReactNode; spark?: ReactNode };

function Total({ name, value, more, sub, spark }: TotalProps) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="v">
        {value} {more != null && <span>{more}</span>}
        {spark !== undefined && <span className="spark-b">{spark}</span>}
      </dd>
      <dd className="s">{sub}</dd>
    </div>
  );
}

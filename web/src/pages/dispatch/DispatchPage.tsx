import { useQuery } from "@tanstack/react-query";
import { countsQuery, factoriesQuery, historyQuery, metricsQuery } from "../../api/queries";
import { count, took } from "../../lib/format";
import { lagOf } from "../../lib/history";
import { PageHead } from "../../shell/Bar";
import { QueryPanel } from "../../ui/Panel";
import { Spark } from "../../ui/Spark";
import { Comparison } from "./Comparison";
import { DeadLetters } from "./DeadLetters";
import { Depth } from "./Depth";
import { Modes } from "./Modes";
import { StoreOperations } from "./StoreOperations";

export function DispatchPage() {
  const factories = useQuery(factoriesQuery);
  return (
    <div className="page">
      <PageHead title="Dispatch" />
      <Now />
      <div className="halves is-top">
        <Modes />
        <StoreOperations />
      </div>
      <Comparison />
      <Depth query={factories} />
      <DeadLetters />
    </div>
  );
}

function Now() {
  const metrics = useQuery(metricsQuery);
  const { data: history } = useQuery(historyQuery);
  const { data: counts } = useQuery(countsQuery(undefined));
  const lag = history === undefined ? null : lagOf(history);
  const lags = (history?.points ?? []).flatMap((point) => (point.lagMs == null ? [] : [point.lagMs.p99]));
  const waiting = (history?.points ?? []).map((point) => point.queued);
  return (
    <QueryPanel title="Now" query={metrics}>
      {(data) => (
        <dl className="figures">
          <Figure
            name="Dispatch lag"
            value={took(lag?.p50 ?? data.dispatchLagMs)}
            sub={lag === null ? "from queued to offered" : `median; 99 % within ${took(lag.p99)} in the last hour`}
            spark={<Spark values={lags} label="p99 of the dispatch lag in the last hour" />}
          />
          <Figure
            name="Waiting"
            value={count(data.waiting)}
            sub={<WaitingWords waiting={data.waiting} unplaceable={counts?.waiting.unplaceable ?? 0} />}
            spark={<Spark values={waiting} label="queued jobs in the last hour" />}
          />
          <Figure name="Open offers" value={count(data.depth)} sub="offered, not accepted yet" />
          <Figure name="Conflicts" value={count(data.conflicts)} sub="writes repeated since the start" />
          <Figure name="Dead letters" value={count(data.deadLetters)} sub="not dismissed" />
        </dl>
      )}
    </QueryPanel>
  );
}

/** A job that fits no factory waits, but no free seat would help it. */
function WaitingWords({ waiting, unplaceable }: { waiting: number; unplaceable: number }) {
  if (unplaceable === 0) return "queued and ready to be placed";
  return (
    <>
      {count(Math.max(0, waiting - unplaceable))} ready to be placed,{" "}
      <span className="is-warn">
        {count(unplaceable)} {unplaceable === 1 ? "fits" : "fit"} no factory
      </span>
    </>
  );
}

function Figure({
  name,
  value,
  sub,
  spark,
}: {
  name: string;
  value: string;
  sub: React.ReactNode;
  spark?: React.ReactNode;
}) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="v is-row">
        {value}
        {spark !== undefined && <span className="push">{spark}</span>}
      </dd>
      <dd className="s">{sub}</dd>
    </div>
  );
}

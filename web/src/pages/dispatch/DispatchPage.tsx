import { useQuery } from "@tanstack/react-query";
import { factoriesQuery, historyQuery, metricsQuery } from "../../api/queries";
import { count, took } from "../../lib/format";
import { lagOf } from "../../lib/history";
import { PageHead } from "../../shell/Bar";
import { QueryPanel } from "../../ui/Panel";
import { Spark } from "../../ui/Spark";
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
      <Depth query={factories} />
      <DeadLetters />
    </div>
  );
}

function Now() {
  const metrics = useQuery(metricsQuery);
  const { data: history } = useQuery(historyQuery);
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
            sub={lag === null ? "from queued to offered" : `p50; p99 ${took(lag.p99)} in the last hour`}
            spark={<Spark values={lags} label="p99 of the dispatch lag in the last hour" />}
          />
          <Figure
            name="Waiting"
            value={count(data.waiting)}
            sub="queued and ready to be placed"
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

function Figure({ name, value, sub, spark }: { name: string; value: string; sub: string; spark?: React.ReactNode }) {
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

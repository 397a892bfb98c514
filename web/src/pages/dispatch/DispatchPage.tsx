import { useQuery } from "@tanstack/react-query";
import { alertsQuery, factoriesQuery, metricsQuery } from "../../api/queries";
import type { Alert, AlertCode } from "../../api/types";
import { count } from "../../lib/format";
import { UNSTREAMED_MS } from "../../live/unstreamed";
import { PageHead } from "../../shell/Bar";
import { QueryPanel } from "../../ui/Panel";
import { AlertRow } from "../fleet/AlertRow";
import { DeadLetters } from "./DeadLetters";
import { Depth } from "./Depth";
import { Modes } from "./Modes";
import { StoreOperations } from "./StoreOperations";

const OWN: ReadonlySet<AlertCode> = new Set([
  "queue_starvation",
  "no_live_factory",
  "unplaceable",
  "unresponsive_factory",
  "dispatch_lag",
  "duplicate_dispatch",
  "dead_letter",
  "engine_paused",
]);
const isOwn = (alert: Alert) => OWN.has(alert.code);

export function DispatchPage() {
  const metrics = useQuery({ ...metricsQuery, refetchInterval: UNSTREAMED_MS });
  const factories = useQuery({ ...factoriesQuery, refetchInterval: UNSTREAMED_MS });
  const alerts = useQuery({ ...alertsQuery, refetchInterval: UNSTREAMED_MS });
  return (
    <div className="page">
      <PageHead title="Dispatch" />
      <QueryPanel title="Now" query={metrics}>
        {(data) => (
          <dl className="figures">
            <Figure name="Dispatch lag" value={`${count(data.dispatchLagMs)} ms`} sub="from queued to offered" />
            <Figure name="Open offers" value={count(data.depth)} sub="not accepted yet" />
            <Figure name="Waiting" value={count(data.waiting)} sub="jobs that could be placed" />
            <Figure name="Conflicts" value={count(data.conflicts)} sub="writes repeated since start" />
            <Figure name="Dead letters" value={count(data.deadLetters)} sub="not dismissed" />
          </dl>
        )}
      </QueryPanel>
      <div className="halves">
        <Modes />
        <QueryPanel
          title="Alerts of dispatch"
          query={alerts}
          isEmpty={({ items }) => !items.some(isOwn)}
          empty={
            <div>
              <h2>No alerts</h2>
              <p className="dim">Every offer is accepted in time and every job can be placed.</p>
            </div>
          }
        >
          {({ items }) => (
            <ul className="alerts">
              {items.filter(isOwn).map((alert) => (
                <AlertRow key={`${alert.code}:${alert.jobId ?? alert.factoryId ?? ""}`} alert={alert} />
              ))}
            </ul>
          )}
        </QueryPanel>
      </div>
      <DeadLetters />
      <Depth query={factories} />
      <StoreOperations query={metrics} />
    </div>
  );
}

function Figure({ name, value, sub }: { name: string; value: string; sub: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="v">{value}</dd>
      <dd className="s">{sub}</dd>
    </div>
  );
}

import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { factoriesQuery, metricsQuery } from "../../api/queries";
import type { Metrics, StageName } from "../../api/types";
import { count, plural } from "../../lib/format";
import { UNSTREAMED_MS } from "../../live/unstreamed";
import { PanelError } from "../../ui/PanelError";
import { Seats, seatsOf } from "../../ui/Seats";

export function Totals() {
  const query = useQuery({ ...metricsQuery, refetchInterval: UNSTREAMED_MS });
  const { data: metrics, error } = query;
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
      <SeatTotal metrics={metrics} />
      <Total
        name="Waiting"
        value={count(of("queued") + of("blocked"))}
        sub={`${count(of("queued"))} queued, ${count(of("blocked"))} blocked`}
      />
      <Total
        name="Building"
        value={count(of("building"))}
        more={of("assigned") > 0 ? `+ ${count(of("assigned"))} assigned` : null}
        sub={`${count(of("testing"))} ready to ship, ${count(of("review"))} in review`}
      />
      <Total
        name="Ended"
        value={count(of("shipped"))}
        more="shipped"
        sub={`${count(of("failed"))} failed, ${plural(of("dead_letter"), "dead letter")}`}
      />
      <Total
        name="Dispatch lag"
        value={`${count(metrics.dispatchLagMs)} ms`}
        sub={`${plural(metrics.depth, "offer")} open`}
      />
    </dl>
  );
}

function SeatTotal({ metrics }: { metrics: Metrics }) {
  const { data } = useQuery(factoriesQuery);
  const reserved = data?.items.reduce((sum, factory) => sum + seatsOf(factory).reserved, 0) ?? 0;
  const free = metrics.seats - metrics.seatsUsed;
  return (
    <div>
      <dt>Seats in use</dt>
      <dd className="v">
        {count(metrics.seatsUsed)} <span>of {count(metrics.seats)}</span>
        <Seats used={Math.max(0, metrics.seatsUsed - reserved)} reserved={reserved} total={metrics.seats} />
      </dd>
      <dd className="s">{free > 0 ? `${count(free)} free` : metrics.seats === 0 ? "no live factory" : "all in use"}</dd>
    </div>
  );
}

function Total({ name, value, more, sub }: { name: string; value: string; more?: string | null; sub: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="v">
        {value} {more != null && <span>{more}</span>}
      </dd>
      <dd className="s">{sub}</dd>
    </div>
  );
}

import type { UseQueryResult } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { FactoryView } from "../../api/types";
import { byTrouble, factoryState } from "../../lib/factories";
import { plural, took } from "../../lib/format";
import { Glyph } from "../../ui/Glyph";
import { QueryPanel } from "../../ui/Panel";
import { Seats, seatsOf } from "../../ui/Seats";
import { Heartbeat } from "../fleet/FactoryCard";

/** What is offered to and running on each factory. */
export function Depth({ query }: { query: UseQueryResult<{ items: FactoryView[] }> }) {
  return (
    <QueryPanel
      title="Inboxes"
      query={query}
      sub={({ items }) => plural(items.length, "factory", "factories")}
      isEmpty={({ items }) => items.length === 0}
      empty={<p className="dim">No factory is enrolled.</p>}
    >
      {({ items }) => (
        <table className="table is-fixed is-rows">
          <colgroup>
            <col className="cw-196" />
            <col className="cw-184" />
            <col className="cw-120" />
            <col className="cw-120" />
            <col className="cw-120" />
            <col />
            <col className="cw-120" />
          </colgroup>
          <thead>
            <tr>
              <th>Factory</th>
              <th>State</th>
              <th className="num">Open offers</th>
              <th className="num">Running</th>
              <th className="num" title="How long the last job that was dispatched to it had waited">
                Lag
              </th>
              <th>Seats</th>
              <th className="num">Presence</th>
            </tr>
          </thead>
          <tbody>
            {[...items].sort(byTrouble).map((factory) => {
              const state = factoryState(factory);
              const { used, reserved } = seatsOf(factory);
              return (
                <tr key={factory.id}>
                  <td className="first strong">
                    <Link to="/factories/$id" params={{ id: factory.id }}>
                      {factory.id}
                    </Link>
                  </td>
                  <td className="tr">
                    <span className={`st ${state.className}`}>
                      <Glyph name={state.glyph} />
                      {state.word}
                    </span>
                  </td>
                  <td className="num" data-l="Offers">
                    {reserved}
                  </td>
                  <td className="num" data-l="Running">
                    {used}
                  </td>
                  <td className="num" data-l="Lag">
                    {factory.dispatchLagMs == null ? "–" : took(factory.dispatchLagMs)}
                  </td>
                  <td>
                    <Seats
                      used={used}
                      reserved={reserved}
                      total={factory.seatLimit}
                      gone={factory.presence === "stale"}
                    />
                  </td>
                  <td className="num end">
                    <Heartbeat factory={factory} />
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
    </QueryPanel>
  );
}

import { Link } from "@tanstack/react-router";
import type { FactoryView } from "../../api/types";
import { engineState, factoryState } from "../../lib/factories";
import { bytes } from "../../lib/format";
import { Glyph } from "../../ui/Glyph";
import { Seats, seatsOf } from "../../ui/Seats";
import { Heartbeat } from "./FactoryCard";

export function FactoryTable({ factories }: { factories: FactoryView[] }) {
  return (
    <table className="table is-fixed is-rows">
      <colgroup>
        <col className="cw-196" />
        <col className="cw-184" />
        <col className="cw-196" />
        <col />
        <col className="cw-96" />
        <col className="cw-104" />
      </colgroup>
      <thead>
        <tr>
          <th>Factory</th>
          <th>State</th>
          <th>Seats</th>
          <th>Engines</th>
          <th className="num">Disk free</th>
          <th className="num">Presence</th>
        </tr>
      </thead>
      <tbody>
        {factories.map((factory) => {
          const state = factoryState(factory);
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
              <td>
                <span className="st">
                  <Seats {...seatsOf(factory)} total={factory.seatLimit} gone={factory.presence === "stale"} />{" "}
                  {factory.seats.length}/{factory.seatLimit}
                </span>
              </td>
              <td>
                {(factory.engines ?? []).map((engine) => `${engine.name} ${engineState(engine).text}`).join(", ") ||
                  "–"}
              </td>
              <td className="num hide">{factory.diskFreeBytes == null ? "–" : bytes(factory.diskFreeBytes)}</td>
              <td className="num end">
                <Heartbeat factory={factory} />
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

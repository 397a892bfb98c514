import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { poolsQuery } from "../../api/queries";
import type { PoolView } from "../../api/types";
import { poolState } from "../../lib/pools";
import { Age } from "../../ui/Age";
import { Glyph } from "../../ui/Glyph";
import { QueryPanel } from "../../ui/Panel";

/** Factories that are started on demand. A fleet without pools shows nothing. */
export function Pools() {
  const query = useQuery(poolsQuery);
  if (query.data === undefined || query.data.items.length === 0) return null;
  return (
    <QueryPanel title="Pools" query={query} sub={() => "factories started on demand"}>
      {({ items }) => (
        <table className="table is-rows">
          <thead>
            <tr>
              <th>Pool</th>
              <th>State</th>
              <th className="num">Live</th>
              <th className="num">Wanted</th>
              <th className="num">Waiting jobs</th>
              <th className="num">Seats in use</th>
              <th>Factories</th>
            </tr>
          </thead>
          <tbody>
            {items.map((pool) => (
              <PoolRow key={pool.name} pool={pool} />
            ))}
          </tbody>
        </table>
      )}
    </QueryPanel>
  );
}

function PoolRow({ pool }: { pool: PoolView }) {
  const { scale } = pool;
  const state = poolState(pool);
  return (
    <tr>
      <td className="first strong">{pool.name}</td>
      <td className="tr">
        <span className={`st ${state.className}`}>
          <Glyph name={state.glyph} />
          {state.word}
          {scale.since != null && (
            <>
              {" for "}
              <Age at={scale.since} />
            </>
          )}
        </span>
      </td>
      <td className="num">{scale.live}</td>
      <td className="num" title={`${pool.warm ?? 0} warm, ${pool.max} at most`}>
        {scale.wanted} of {pool.max}
      </td>
      <td className="num">{scale.waiting}</td>
      <td className="num">
        {scale.used}/{scale.live * (pool.seats ?? 1)}
      </td>
      <td>
        {scale.members.length === 0
          ? "–"
          : scale.members.map((member, index) => (
              <span key={member}>
                {index > 0 && ", "}
                <Link to="/factories/$id" params={{ id: member }}>
                  {member}
                </Link>
              </span>
            ))}
      </td>
    </tr>
  );
}

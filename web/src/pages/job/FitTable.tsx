import { Link } from "@tanstack/react-router";
import type { Explanation, FactoryFit } from "../../api/types";
import { unfitWords } from "../../lib/unfit";
import { Glyph } from "../../ui/Glyph";
import { Words } from "../../ui/Words";

export const TERMS = [
  { key: "capabilityFit", name: "Fit", hint: "how closely its capabilities match" },
  { key: "affinity", name: "Affinity", hint: "has the repository or the saved work" },
  { key: "idleness", name: "Idle", hint: "free seats and load" },
  { key: "costFit", name: "Cost", hint: "cheaper factories score higher" },
  { key: "health", name: "Health", hint: "recent failures and lost leases lower it" },
] as const;

/** Every factory: eligible or why not. The scores are behind a disclosure. */
export function FitTable({ explanation }: { explanation: Explanation }) {
  const sorted = [...explanation.factories].sort(
    (a, b) => (a.rank ?? 1e9) - (b.rank ?? 1e9) || a.factory.localeCompare(b.factory),
  );
  if (sorted.length === 0) return <p className="panel-b dim">No factory is enrolled.</p>;
  return (
    <>
      <ul className="fits group-t">
        {sorted.map((fit) => (
          <Fit key={fit.factory} fit={fit} isFirst={fit.rank === 1} />
        ))}
      </ul>
      {sorted.some((fit) => fit.eligible) && (
        <details className="group-t scores">
          <summary>Scores</summary>
          <Scores fits={sorted.filter((fit) => fit.eligible)} />
        </details>
      )}
    </>
  );
}

function Fit({ fit, isFirst }: { fit: FactoryFit; isFirst: boolean }) {
  return (
    <li>
      <span className={fit.eligible ? "st-ok" : "st-failed"}>
        <Glyph name={fit.eligible ? "shipped" : "failed"} />
      </span>
      <Link to="/factories/$id" params={{ id: fit.factory }} className="strong t1">
        {fit.factory}
      </Link>
      <span className="wrap-any">
        {fit.eligible ? (
          <>
            <span className="is-ok">eligible</span>
            <span className="dim">
              {fit.avoided
                ? ", as a last resort (it failed here before)"
                : isFirst
                  ? ", best match"
                  : fit.rank == null
                    ? ""
                    : `, rank ${fit.rank}`}
            </span>
          </>
        ) : (
          <>
            <span className="is-bad">not eligible:</span>{" "}
            <span className="dim">
              <Words text={fit.unfit.map(unfitWords).join("; ")} />
            </span>
          </>
        )}
      </span>
    </li>
  );
}

function Scores({ fits }: { fits: FactoryFit[] }) {
  return (
    <table className="table plain">
      <thead>
        <tr>
          <th>Factory</th>
          {TERMS.map((term) => (
            <th key={term.key} className="num" title={term.hint}>
              {term.name}
            </th>
          ))}
          <th className="num" title="Waiting lowers the bar for every factory alike">
            Waited
          </th>
          <th className="num">Total</th>
        </tr>
      </thead>
      <tbody>
        {fits.map((fit) => (
          <tr key={fit.factory}>
            <td>{fit.factory}</td>
            {TERMS.map((term) => (
              <td key={term.key} className="num">
                {fit.score[term.key].toFixed(2)}
              </td>
            ))}
            <td className="num">−{fit.score.starvationPenalty.toFixed(2)}</td>
            <td className="num strong">{fit.score.total.toFixed(2)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

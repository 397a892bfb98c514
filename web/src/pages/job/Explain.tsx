import { useQuery } from "@tanstack/react-query";
import { jobExplainQuery } from "../../api/queries";
import type { PlacementDecision } from "../../api/types";
import { clock } from "../../lib/format";
import { QueryPanel } from "../../ui/Panel";
import { Words } from "../../ui/Words";
import { FitTable, TERMS } from "./FitTable";

/** Why the job is where it is: one sentence first, the factories behind it. */
export function Explain({ id }: { id: string }) {
  const query = useQuery(jobExplainQuery(id));
  return (
    <QueryPanel title="Explain" query={query}>
      {(explained) => {
        const { then, decision, now, job } = explained;
        const isPlaced = job.holderFactoryId != null;
        const isOver = job.stage === "shipped" || job.stage === "failed" || job.stage === "dead_letter";
        return (
          <>
            <div className="panel-b gap-1">
              <p className="strong measure">
                <Words text={explained.summary.charAt(0).toUpperCase() + explained.summary.slice(1)} />
              </p>
              {then != null && then.text !== undefined && (
                <p className="dim">
                  Last decision at {clock(then.at)}: <Words text={then.text} />
                </p>
              )}
              {(isPlaced || isOver) && (
                <p className="dim">
                  If it were scheduled now: <Words text={now.text} />
                </p>
              )}
            </div>
            {decision != null && <Decision decision={decision} />}
            {job.stage === "queued" ? (
              <FitTable explanation={now} />
            ) : (
              <details className="group-t scores">
                <summary>Every factory, if it were scheduled now</summary>
                <FitTable explanation={now} />
              </details>
            )}
          </>
        );
      }}
    </QueryPanel>
  );
}

/** The decision as it was taken: the score then, and who came next. */
function Decision({ decision }: { decision: PlacementDecision }) {
  return (
    <details className="group-t scores" open>
      <summary>The decision at {clock(decision.at)}</summary>
      <table className="table plain">
        <thead>
          <tr>
            <th>Factory</th>
            {TERMS.map((term) => (
              <th key={term.key} className="num" title={term.hint}>
                {term.name}
              </th>
            ))}
            <th className="num">Waited</th>
            <th className="num">Total</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <td className="strong">
              {decision.factory}
              {decision.engine != null && <span className="dim">, {decision.engine}</span>}
            </td>
            {TERMS.map((term) => (
              <td key={term.key} className="num" title={`weight ${decision.weights[term.key]}`}>
                {decision.score[term.key].toFixed(2)}
              </td>
            ))}
            <td className="num">−{decision.score.starvationPenalty.toFixed(2)}</td>
            <td className="num strong">{decision.score.total.toFixed(2)}</td>
          </tr>
          {decision.runnersUp.map((next) => (
            <tr key={next.factory}>
              <td className="dim" colSpan={TERMS.length + 2}>
                {next.factory}
              </td>
              <td className="num">{next.total.toFixed(2)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

import { Link } from "@tanstack/react-router";
import type { BudgetView } from "../../api/types";
import { money } from "../../lib/format";
import { BudgetState, isNearlySpent, PERIOD_WORDS, projectionWords } from "./words";

export function BudgetTable({
  budgets,
  selected,
  open,
}: {
  budgets: readonly BudgetView[];
  selected: string | undefined;
  open: (budget: BudgetView) => void;
}) {
  return (
    <table className="table is-rows is-fixed">
      <colgroup>
        <col className="cw-196" />
        <col className="cw-88" />
        <col className="cw-184" />
        <col />
        <col className="cw-320" />
        <col className="cw-120" />
        <col className="cw-184" />
      </colgroup>
      <thead>
        <tr>
          <th>Product</th>
          <th className="num">Spent</th>
          <th>Ceiling</th>
          <th>Used</th>
          <th>Projection</th>
          <th className="num">Per merge</th>
          <th>State</th>
        </tr>
      </thead>
      <tbody>
        {budgets.map((budget) => (
          <tr
            key={budget.productId}
            className={budget.productId === selected ? "is-cursor" : ""}
            onClick={() => open(budget)}
          >
            <td className="first">
              <Link className="strong" to="/budgets/$id" params={{ id: budget.productId }}>
                {budget.productId}
              </Link>
            </td>
            <td className="num" data-l="Spent">
              {money(budget.spentUsd)}
            </td>
            <td className="dim">
              {budget.ceilingUsd == null
                ? "no ceiling"
                : `of ${money(budget.ceilingUsd)} ${PERIOD_WORDS[budget.period]}`}
            </td>
            <td>
              <Meter budget={budget} />
            </td>
            <td className={`tr ${isNearlySpent(budget) ? "is-warn" : "dim"}`}>{projectionWords(budget)}</td>
            <td className="num" data-l="Per merge">
              {budget.costPerMergedUsd == null ? "–" : money(budget.costPerMergedUsd)}
            </td>
            <td>
              <BudgetState budget={budget} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Meter({ budget }: { budget: BudgetView }) {
  if (budget.usedPercent == null) return <span className="dim">–</span>;
  const used = Math.min(100, budget.usedPercent);
  const look = budget.waiting != null ? "is-bad" : isNearlySpent(budget) ? "is-warn" : "";
  return (
    <svg className="meter" role="img" aria-label={`${Math.round(budget.usedPercent)} % of the ceiling`}>
      <title>{`${Math.round(budget.usedPercent)} % of the ceiling`}</title>
      <rect className="bg" width="100%" height="8" rx="2" />
      <rect className={`fg ${look}`} width={`${used}%`} height="8" rx="2" />
    </svg>
  );
}

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { burnDownQuery } from "../../api/queries";
import type { BudgetView, SpendShare } from "../../api/types";
import { count, exact, money, plural, shortId } from "../../lib/format";
import { Age } from "../../ui/Age";
import { WriteButton } from "../../ui/Button";
import { Panel, QueryPanel } from "../../ui/Panel";
import { Chart } from "./Chart";
import { BudgetState, PERIOD_WORDS, projectionWords, RUNNING_WORDS, waitWords } from "./words";

/** One product: figures, the chart, what it is spent on, and the latest costs. */
export function BudgetDetail({ budget, edit, pause }: { budget: BudgetView; edit: () => void; pause: () => void }) {
  const chart = useQuery(burnDownQuery(budget.productId));
  return (
    <>
      <QueryPanel
        title={budget.productId}
        query={chart}
        sub={() => <BudgetState budget={budget} />}
        right={
          <span className="btns">
            <WriteButton small onClick={pause} title={`${budget.paused ? "Resume" : "Pause"} (p)`}>
              {budget.paused ? "Resume…" : "Pause…"}
            </WriteButton>
            <WriteButton small onClick={edit}>
              Change budget…
            </WriteButton>
          </span>
        }
      >
        {(data) => (
          <>
            <Figures budget={budget} />
            <Stopped budget={budget} />
            <Chart chart={data} />
          </>
        )}
      </QueryPanel>
      <div className="halves is-top">
        <Ledger budget={budget} />
        <div className="stack">
          <Shares title="By engine" shares={budget.byEngine} />
          <Shares title="By repository" shares={budget.byRepo} />
          <Shares title="By profile" shares={budget.byProfile} />
        </div>
      </div>
    </>
  );
}

function Figures({ budget }: { budget: BudgetView }) {
  const { ceilingUsd, leftUsd, usedPercent } = budget;
  const ceiling = ceilingUsd == null ? "no ceiling" : `of ${money(ceilingUsd)} ${PERIOD_WORDS[budget.period]}`;
  const percent = usedPercent == null ? "" : `${Math.round(usedPercent)} % `;
  const unknown = budget.runsWithoutCost > 0 ? `, ${count(budget.runsWithoutCost)} without a known cost` : "";
  return (
    <dl className="figures">
      <Figure name="Spent" value={money(budget.spentUsd)} sub={`${percent}${ceiling}`} />
      <Figure
        name="Left"
        value={leftUsd == null ? "no limit" : money(leftUsd)}
        sub={`${money(budget.reservedUsd)} more reserved by running jobs`}
      />
      <Figure name="Rate" value={`${money(budget.projection.usdPerHour)}/h`} sub={projectionWords(budget)} />
      <Figure
        name="Per merged pull request"
        value={budget.costPerMergedUsd == null ? "–" : money(budget.costPerMergedUsd)}
        sub={`${budget.merged} merged; failed attempts included`}
      />
      <Figure name="Runs" value={count(budget.runs)} sub={`${count(budget.failedRuns)} failed${unknown}`} />
      <Figure name="By subscriptions" value={money(budget.subscriptionUsd)} sub="covered, not part of the ceiling" />
    </dl>
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

/** Why nothing of the product starts. */
function Stopped({ budget }: { budget: BudgetView }) {
  if (!budget.paused && budget.waiting == null) return null;
  const { pause } = budget;
  const reason = pause?.reason == null ? "" : `: ${pause.reason}`;
  const words = budget.paused
    ? `Paused${pause == null ? "" : ` by ${pause.by} since ${exact(pause.at)}`}${reason}`
    : budget.waiting == null
      ? ""
      : waitWords(budget.waiting);
  return (
    <p className="panel-b tr is-warn">
      {words}. {RUNNING_WORDS[budget.running]}
    </p>
  );
}

function Ledger({ budget }: { budget: BudgetView }) {
  return (
    <Panel title="Latest costs" sub={budget.recent.length === 0 ? undefined : "newest first"}>
      {budget.recent.length === 0 ? (
        <p className="panel-b dim">Nothing was spent yet.</p>
      ) : (
        <table className="table is-fixed ledger">
          <colgroup>
            <col className="cw-88" />
            <col />
            <col className="cw-72" />
            <col className="cw-120" />
            <col className="cw-88" />
          </colgroup>
          <thead>
            <tr>
              <th>When</th>
              <th>Job</th>
              <th>Run</th>
              <th>Engine</th>
              <th className="num">Cost</th>
            </tr>
          </thead>
          <tbody>
            {budget.recent.map((entry, index) => (
              <tr key={`${entry.jobId}-${entry.run}-${index}`}>
                <td className="dim">
                  <Age at={entry.at} />
                </td>
                <td>
                  <Link to="/jobs/$id" params={{ id: entry.jobId }}>
                    {shortId(entry.jobId)}
                  </Link>
                </td>
                <td>{entry.run}</td>
                <td>{entry.engine ?? "–"}</td>
                <td className="num" title={entry.billing === "subscription" ? "covered by a subscription" : undefined}>
                  {entry.usd == null ? "unknown" : money(entry.usd)}
                  {entry.billing === "subscription" ? " *" : ""}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

function Shares({ title, shares }: { title: string; shares: readonly SpendShare[] }) {
  const top = Math.max(...shares.map((share) => share.usd), 0);
  if (shares.length === 0) return null;
  return (
    <Panel title={title}>
      <table className="table is-fixed">
        <colgroup>
          <col />
          <col />
          <col className="cw-88" />
        </colgroup>
        <tbody>
          {shares.map((share) => (
            <tr key={share.name}>
              <td title={`${plural(share.runs, "run")}, ${share.failedRuns} failed`}>{share.name}</td>
              <td>
                <svg className="meter" aria-hidden="true">
                  <rect className="bg" width="100%" height="8" rx="2" />
                  <rect className="fg" width={`${top > 0 ? (100 * share.usd) / top : 0}%`} height="8" rx="2" />
                </svg>
              </td>
              <td className="num">{money(share.usd)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

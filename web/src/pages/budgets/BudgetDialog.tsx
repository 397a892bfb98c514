import { useId, useState } from "react";
import { saveBudget } from "../../api/actions";
import type { BudgetPeriod, BudgetView, RunningWork } from "../../api/types";
import { queries } from "../../live";
import { Confirm } from "../../ui/Confirm";
import { say } from "../../ui/toasts";
import { PERIOD_WORDS, RUNNING_WORDS } from "./words";

export const refreshBudgets = () =>
  Promise.all(
    ["budgets", "burndown", "products", "alerts", "needs"].map((key) => queries.invalidateQueries({ queryKey: [key] })),
  );

/** An amount as typed; nothing when empty. */
export function amountOf(text: string): number | undefined {
  if (text.trim() === "") return undefined;
  const amount = Number(text);
  if (!Number.isFinite(amount) || amount < 0) throw new Error(`"${text}" is not an amount in dollars`);
  return amount;
}

export function BudgetDialog({ budget, onClose }: { budget: BudgetView; onClose: () => void }) {
  const ids = { ceiling: useId(), period: useId(), job: useId(), running: useId() };
  const [ceiling, setCeiling] = useState(budget.ceilingUsd == null ? "" : String(budget.ceilingUsd));
  const [period, setPeriod] = useState<BudgetPeriod>(budget.period);
  const [job, setJob] = useState(budget.jobUsd == null ? "" : String(budget.jobUsd));
  const [running, setRunning] = useState<RunningWork>(budget.running);

  async function save() {
    await saveBudget(budget.productId, { ceilingUsd: amountOf(ceiling), period, jobUsd: amountOf(job), running });
    await refreshBudgets();
    say("Budget saved", budget.productId);
  }

  return (
    <Confirm title={`Budget of ${budget.productId}`} verb="Save" onClose={onClose} act={save}>
      <div className="field">
        <label htmlFor={ids.ceiling}>Ceiling in dollars</label>
        <input
          id={ids.ceiling}
          className="input"
          inputMode="decimal"
          value={ceiling}
          onChange={(event) => setCeiling(event.target.value)}
        />
        <span className="hint">Empty for no ceiling</span>
      </div>
      <div className="field">
        <label htmlFor={ids.period}>Period, in UTC</label>
        <select
          id={ids.period}
          className="select"
          value={period}
          onChange={(event) => setPeriod(event.target.value as BudgetPeriod)}
        >
          {Object.entries(PERIOD_WORDS).map(([name, words]) => (
            <option key={name} value={name}>
              {words}
            </option>
          ))}
        </select>
      </div>
      <div className="field">
        <label htmlFor={ids.job}>Reserved for a job without a limit of its own</label>
        <input
          id={ids.job}
          className="input"
          inputMode="decimal"
          value={job}
          onChange={(event) => setJob(event.target.value)}
        />
        <span className="hint">Empty for $1.00. What it does not spend is free again when it ends</span>
      </div>
      <div className="field">
        <label htmlFor={ids.running}>When the product is paused</label>
        <select
          id={ids.running}
          className="select"
          value={running}
          onChange={(event) => setRunning(event.target.value as RunningWork)}
        >
          {Object.entries(RUNNING_WORDS).map(([name, words]) => (
            <option key={name} value={name}>
              {words}
            </option>
          ))}
        </select>
      </div>
    </Confirm>
  );
}

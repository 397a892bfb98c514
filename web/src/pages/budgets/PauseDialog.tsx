import { useId, useState } from "react";
import { pauseProduct, resumeProduct } from "../../api/actions";
import type { BudgetView } from "../../api/types";
import { Confirm } from "../../ui/Confirm";
import { say } from "../../ui/toasts";
import { refreshBudgets } from "./BudgetDialog";
import { RUNNING_WORDS } from "./words";

/** The switch: pauses or resumes a product. */
export function PauseDialog({ budget, onClose }: { budget: BudgetView; onClose: () => void }) {
  const id = useId();
  const [reason, setReason] = useState("");
  const name = budget.productId;

  async function act() {
    if (budget.paused) await resumeProduct(name);
    else await pauseProduct(name, reason.trim() === "" ? undefined : reason.trim());
    await refreshBudgets();
    say(budget.paused ? `${name} is resumed` : `${name} is paused`);
  }

  if (budget.paused)
    return (
      <Confirm title={`Resume ${name}?`} verb="Resume" onClose={onClose} act={act}>
        <p>Its queued jobs start again{budget.waiting == null ? "." : " once there is money for them."}</p>
      </Confirm>
    );
  return (
    <Confirm title={`Pause ${name}?`} verb="Pause" danger onClose={onClose} act={act}>
      <p>No job of it starts until you resume it. {RUNNING_WORDS[budget.running]}</p>
      <div className="field">
        <label htmlFor={id}>Reason</label>
        <input id={id} className="input" value={reason} onChange={(event) => setReason(event.target.value)} />
        <span className="hint">Shown wherever its jobs wait</span>
      </div>
    </Confirm>
  );
}

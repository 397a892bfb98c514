import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { setModes } from "../../api/actions";
import { flagsQuery } from "../../api/queries";
import { queries } from "../../live";
import { WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { say } from "../../ui/toasts";
import { refreshBudgets } from "./BudgetDialog";

/** The switch of the fleet: whether a product without money starts jobs. */
export function Enforcement() {
  const { data: flags } = useQuery(flagsQuery);
  const [asks, setAsks] = useState(false);
  if (flags === undefined) return null;
  const [known, isOn] = [flags, flags.budgets === true];

  async function act() {
    await setModes({ ...known, budgets: !isOn });
    await queries.invalidateQueries({ queryKey: ["flags"] });
    await refreshBudgets();
    say(isOn ? "Ceilings are not enforced" : "Ceilings are enforced");
  }

  return (
    <>
      <WriteButton small onClick={() => setAsks(true)}>
        {isOn ? "Stop enforcing ceilings…" : "Enforce ceilings…"}
      </WriteButton>
      {asks && (
        <Confirm
          title={isOn ? "Stop enforcing ceilings?" : "Enforce ceilings?"}
          verb={isOn ? "Stop enforcing" : "Enforce"}
          danger={isOn}
          onClose={() => setAsks(false)}
          act={act}
        >
          <p className="dim">
            {isOn
              ? "Jobs start whatever their product has spent. Spending is still shown, and alerts are not raised."
              : "A job starts when its product has money left for it, and waits otherwise. Nothing that was submitted is lost."}
          </p>
        </Confirm>
      )}
    </>
  );
}

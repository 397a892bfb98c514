import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { budgetsQuery } from "../../api/queries";
import type { BudgetView } from "../../api/types";
import { PageHead } from "../../shell/Bar";
import { useKeys } from "../../shell/keys";
import { useProduct } from "../../shell/ProductSwitcher";
import { QueryPanel } from "../../ui/Panel";
import { BudgetDetail } from "./BudgetDetail";
import { BudgetDialog } from "./BudgetDialog";
import { BudgetTable } from "./BudgetTable";
import { Enforcement } from "./Enforcement";
import { PauseDialog } from "./PauseDialog";

type Asked = { kind: "edit" | "pause"; budget: BudgetView };

/** What products may spend, have spent, and where that leads. */
export function BudgetsPage() {
  const query = useQuery(budgetsQuery);
  const product = useProduct();
  const { id } = useParams({ strict: false });
  const navigate = useNavigate();
  const [asked, setAsked] = useState<Asked | null>(null);
  const shown = (query.data?.items ?? []).filter((one) => product === undefined || one.productId === product);
  const chosen = shown.find((one) => one.productId === id) ?? (shown.length === 1 ? shown[0] : undefined);
  useKeys(
    chosen === undefined
      ? []
      : [
          {
            keys: "p",
            label: chosen.paused ? "Resume the product" : "Pause the product",
            group: "Budgets",
            run: () => setAsked({ kind: "pause", budget: chosen }),
          },
        ],
  );
  return (
    <div className="page">
      <PageHead title="Budgets" />
      <QueryPanel
        title="Products"
        query={query}
        sub={({ items }) =>
          items.some((one) => one.ceilingUsd != null && !one.enforced) ? "ceilings are not enforced" : null
        }
        right={<Enforcement />}
        isEmpty={() => shown.length === 0}
        empty={
          <div>
            <h2>No product</h2>
            <p className="dim">
              Create one in Admin, then limit what it may spend:{" "}
              <code>giga budget set NAME --ceiling 50 --period day</code>
            </p>
          </div>
        }
      >
        {() => (
          <BudgetTable
            budgets={shown}
            selected={chosen?.productId}
            open={(budget) => void navigate({ to: "/budgets/$id", params: { id: budget.productId } })}
          />
        )}
      </QueryPanel>
      {chosen !== undefined && (
        <BudgetDetail
          key={chosen.productId}
          budget={chosen}
          edit={() => setAsked({ kind: "edit", budget: chosen })}
          pause={() => setAsked({ kind: "pause", budget: chosen })}
        />
      )}
      {asked?.kind === "edit" && <BudgetDialog budget={asked.budget} onClose={() => setAsked(null)} />}
      {asked?.kind === "pause" && <PauseDialog budget={asked.budget} onClose={() => setAsked(null)} />}
    </div>
  );
}

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { pauseProduct, resumeProduct } from "../../api/actions";
import { productsQuery } from "../../api/queries";
import type { Product } from "../../api/types";
import { queries } from "../../live";
import { WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { QueryPanel } from "../../ui/Panel";
import { say, sayError } from "../../ui/toasts";
import { ProductDialog } from "./ProductDialog";

const refresh = () => queries.invalidateQueries({ queryKey: ["products"] });

export function Products() {
  const query = useQuery(productsQuery);
  const [edited, setEdited] = useState<Product | "new" | null>(null);
  const [paused, setPaused] = useState<Product | null>(null);

  async function resume(product: Product) {
    try {
      await resumeProduct(product.id);
      await refresh();
      say(`${product.id} is resumed`);
    } catch (error) {
      sayError("Not resumed", error);
    }
  }

  return (
    <QueryPanel
      title="Products"
      query={query}
      sub={({ items }) => String(items.length)}
      right={
        <WriteButton small onClick={() => setEdited("new")}>
          New product…
        </WriteButton>
      }
      isEmpty={({ items }) => items.length === 0}
      empty={<p className="dim">A product is the scope of tokens, budgets and visibility. Create the first one.</p>}
    >
      {({ items }) => (
        <>
          <table className="table is-rows is-fixed">
            <colgroup>
              <col className="cw-196" />
              <col className="cw-120" />
              <col className="cw-184" />
              <col className="cw-88" />
              <col />
              <col className="cw-184" />
            </colgroup>
            <thead>
              <tr>
                <th>Product</th>
                <th>State</th>
                <th>Finished work</th>
                <th className="num">Weight</th>
                <th>Repositories</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {items.map((product) => (
                <tr key={product.id}>
                  <td className="first strong">{product.id}</td>
                  <td className={`tr ${product.paused ? "is-warn" : "dim"}`}>{product.paused ? "paused" : "active"}</td>
                  <td>{product.autoShip ? "merged automatically" : "waits to be shipped"}</td>
                  <td className="num" data-l="Weight">
                    {product.weight ?? 1}
                  </td>
                  <td className="dim">{(product.repos ?? []).join(", ") || "any"}</td>
                  <td className="num">
                    <span className="btns justify-end">
                      <WriteButton small onClick={() => (product.paused ? void resume(product) : setPaused(product))}>
                        {product.paused ? "Resume" : "Pause…"}
                      </WriteButton>
                      <WriteButton small look="quiet" onClick={() => setEdited(product)}>
                        Edit…
                      </WriteButton>
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {edited !== null && (
            <ProductDialog product={edited === "new" ? null : edited} onClose={() => setEdited(null)} />
          )}
          {paused !== null && (
            <Confirm
              title={`Pause ${paused.id}?`}
              verb="Pause"
              onClose={() => setPaused(null)}
              reason="Reason"
              hint="Shown wherever its jobs wait"
              act={(reason) => pauseProduct(paused.id, reason === "" ? undefined : reason).then(refresh)}
            >
              <p>Its queued jobs are not placed until you resume it. Its budget says what happens to running jobs.</p>
            </Confirm>
          )}
        </>
      )}
    </QueryPanel>
  );
}

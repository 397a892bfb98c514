import { useId, useState } from "react";
import { saveProduct } from "../../api/actions";
import type { Product } from "../../api/types";
import { queries } from "../../live";
import { Confirm } from "../../ui/Confirm";
import { say } from "../../ui/toasts";

export function ProductDialog({ product, onClose }: { product: Product | null; onClose: () => void }) {
  const ids = { name: useId(), weight: useId(), repos: useId() };
  const [name, setName] = useState(product?.id ?? "");
  const [autoShip, setAutoShip] = useState(product?.autoShip ?? false);
  const [weight, setWeight] = useState(String(product?.weight ?? 1));
  const [repos, setRepos] = useState((product?.repos ?? []).join(", "));

  async function save() {
    if (name.trim() === "") throw new Error("the product needs a name");
    const list = repos.split(/[\s,]+/).filter(Boolean);
    await saveProduct(name.trim(), { autoShip, weight: Number(weight) || 1, repos: list });
    await queries.invalidateQueries({ queryKey: ["products"] });
    say(product === null ? "Product created" : "Product saved", name.trim());
  }

  return (
    <Confirm
      title={product === null ? "New product" : `Edit ${product.id}`}
      verb={product === null ? "Create" : "Save"}
      onClose={onClose}
      act={save}
    >
      {product === null && (
        <div className="field">
          <label htmlFor={ids.name}>Name</label>
          <input id={ids.name} className="input" value={name} onChange={(event) => setName(event.target.value)} />
        </div>
      )}
      <label className="check">
        <input type="checkbox" checked={autoShip} onChange={(event) => setAutoShip(event.target.checked)} />
        Merge finished jobs automatically
      </label>
      <div className="field">
        <label htmlFor={ids.weight}>Weight</label>
        <input
          id={ids.weight}
          className="input"
          type="number"
          min={1}
          value={weight}
          onChange={(event) => setWeight(event.target.value)}
        />
        <span className="hint">Share of the seats when products compete</span>
      </div>
      <div className="field">
        <label htmlFor={ids.repos}>Repositories</label>
        <input
          id={ids.repos}
          className="input is-mono"
          value={repos}
          onChange={(event) => setRepos(event.target.value)}
        />
        <span className="hint">Names with commas between them; empty for any</span>
      </div>
    </Confirm>
  );
}

import { useId, useState } from "react";
import { saveProduct } from "../../api/actions";
import type { Product } from "../../api/types";
import { parseSeats, parseWeights, seatsText, weightsText } from "../../lib/productFields";
import { queries } from "../../live";
import { Confirm } from "../../ui/Confirm";
import { say } from "../../ui/toasts";

export function ProductDialog({ product, onClose }: { product: Product | null; onClose: () => void }) {
  const ids = { name: useId(), weight: useId(), repos: useId(), seats: useId(), terms: useId() };
  const [name, setName] = useState(product?.id ?? "");
  const [autoShip, setAutoShip] = useState(product?.autoShip ?? false);
  const [weight, setWeight] = useState(String(product?.weight ?? 1));
  const [seats, setSeats] = useState(seatsText(product?.repoSeats));
  const [terms, setTerms] = useState(weightsText(product?.scoreWeights));
  const [repos, setRepos] = useState((product?.repos ?? []).join(", "));

  async function save() {
    if (name.trim() === "") throw new Error("the product needs a name");
    const list = repos.split(/[\s,]+/).filter(Boolean);
    const [repoSeats, scoreWeights] = [parseSeats(seats), parseWeights(terms)];
    await saveProduct(name.trim(), { autoShip, weight: Number(weight) || 1, repos: list, repoSeats, scoreWeights });
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
      <div className="field">
        <label htmlFor={ids.seats}>Seats of repositories</label>
        <input
          id={ids.seats}
          className="input is-mono"
          value={seats}
          placeholder="notes=2"
          onChange={(event) => setSeats(event.target.value)}
        />
        <span className="hint">Jobs of a repository at a time in the fleet; empty for no limit</span>
      </div>
      <div className="field">
        <label htmlFor={ids.terms}>Weights of the placement score</label>
        <input
          id={ids.terms}
          className="input is-mono"
          value={terms}
          placeholder="affinity=2, health=0.5"
          onChange={(event) => setTerms(event.target.value)}
        />
        <span className="hint">fit, affinity, idle, cost, health, wait; the others have the fleet's weight</span>
      </div>
    </Confirm>
  );
}

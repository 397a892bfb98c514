import { Dialog } from "@base-ui/react/dialog";
import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { createToken } from "../../api/actions";
import { productsQuery } from "../../api/queries";
import type { NewTokenScope } from "../../api/types";
import { queries } from "../../live";
import { Button } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { Command } from "../../ui/Copy";

const ROLES = {
  viewer: "reads",
  operator: "reads, submits and acts on jobs",
  admin: "everything",
  join: "enrols one factory",
} as const;
const LIVES = {
  "never expires": null,
  "1 hour": 3_600,
  "1 day": 86_400,
  "30 days": 2_592_000,
  "1 year": 31_536_000,
} as const;
type Role = keyof typeof ROLES;
type Life = keyof typeof LIVES;

export function TokenDialog({ onClose }: { onClose: () => void }) {
  const ids = { name: useId(), owner: useId(), life: useId() };
  const { data } = useQuery(productsQuery);
  const [name, setName] = useState("");
  const [owner, setOwner] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [life, setLife] = useState<Life>("30 days");
  const [products, setProducts] = useState<string[]>([]);
  const [secret, setSecret] = useState<string | null>(null);

  async function create() {
    if (name.trim() === "") throw new Error("the token needs a name");
    const grant: NewTokenScope = role === "admin" ? { role } : { role, products };
    const person = role === "join" || owner.trim() === "" ? undefined : owner.trim();
    const made = await createToken(name.trim(), grant, LIVES[life], person);
    await queries.invalidateQueries({ queryKey: ["tokens"] });
    setSecret(made.secret);
  }
  if (secret !== null) return <Secret name={name} secret={secret} onClose={onClose} />;

  return (
    <Confirm title="New token" verb="Create" onClose={() => secret === null && onClose()} act={create} keepOpen>
      <div className="field">
        <label htmlFor={ids.name}>Name</label>
        <input
          id={ids.name}
          className="input"
          value={name}
          onChange={(event) => setName(event.target.value)}
          placeholder="who or what uses it"
        />
      </div>
      {role !== "join" && (
        <div className="field">
          <label htmlFor={ids.owner}>Person</label>
          <input
            id={ids.owner}
            className="input"
            value={owner}
            onChange={(event) => setOwner(event.target.value)}
            placeholder="its name, when empty"
          />
          <span className="hint">All tokens of one person are one reviewer, and one author.</span>
        </div>
      )}
      <fieldset className="choices">
        <legend className="strong">Role</legend>
        {(Object.keys(ROLES) as Role[]).map((one) => (
          <label key={one}>
            <input type="radio" name="role" checked={one === role} onChange={() => setRole(one)} />
            <span>
              {one} <span className="dim">{ROLES[one]}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {role !== "admin" && (data?.items.length ?? 0) > 0 && (
        <fieldset className="choices">
          <legend className="strong">
            Products <span className="dim">(none chosen: all)</span>
          </legend>
          {data?.items.map(({ id }) => (
            <label key={id}>
              <input
                type="checkbox"
                checked={products.includes(id)}
                onChange={(event) =>
                  setProducts(event.target.checked ? [...products, id] : products.filter((one) => one !== id))
                }
              />
              <span>{id}</span>
            </label>
          ))}
        </fieldset>
      )}
      <div className="field">
        <label htmlFor={ids.life}>Expires after</label>
        <select id={ids.life} className="select" value={life} onChange={(event) => setLife(event.target.value as Life)}>
          {Object.keys(LIVES).map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </div>
    </Confirm>
  );
}

function Secret({ name, secret, onClose }: { name: string; secret: string; onClose: () => void }) {
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="scrim" />
        <Dialog.Popup className="dialog is-floating">
          <div className="dialog-b">
            <Dialog.Title>Token {name}</Dialog.Title>
            <Dialog.Description>Copy it now. It is shown once and stored only as a hash.</Dialog.Description>
            <Command text={secret} />
          </div>
          <div className="dialog-f">
            <Button look="primary" onClick={onClose}>
              Done
            </Button>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

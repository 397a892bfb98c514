import { Dialog } from "@base-ui/react/dialog";
import { useId, useState } from "react";
import { createToken } from "../../api/actions";
import { queries } from "../../live";
import { Button } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { Command } from "../../ui/Copy";

const HOUR_S = 3_600;

/** Creates a one-time join token and shows the command for the machine that joins. */
export function AddFactory({ onClose }: { onClose: () => void }) {
  const id = useId();
  const [name, setName] = useState("");
  const [secret, setSecret] = useState<string | null>(null);

  async function create() {
    const factory = name.trim();
    if (factory === "") throw new Error("the factory needs a name");
    const made = await createToken(`join ${factory}`, { role: "join", factory }, HOUR_S);
    await queries.invalidateQueries({ queryKey: ["tokens"] });
    setSecret(made.secret);
  }

  if (secret === null) {
    return (
      <Confirm title="Add a factory" verb="Create a join token" onClose={onClose} act={create} keepOpen>
        <p>A factory is a machine that runs agents. It enrols with a one-time token that is valid for one hour.</p>
        <div className="field">
          <label htmlFor={id}>Name of the machine</label>
          <input id={id} className="input" value={name} onChange={(event) => setName(event.target.value)} />
        </div>
      </Confirm>
    );
  }
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="scrim" />
        <Dialog.Popup className="dialog is-floating is-wide">
          <div className="dialog-b">
            <Dialog.Title>Start {name.trim()}</Dialog.Title>
            <Dialog.Description>
              Run this on the machine that should work. The token is shown once; the factory appears here by itself.
            </Dialog.Description>
            <Command text={`GIGA_API=${location.origin} giga factory run --name ${name.trim()} --join ${secret}`} />
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

import { Dialog } from "@base-ui/react/dialog";
import { useState } from "react";
import { Button } from "../ui/Button";
import { type Binding, currentBindings, letterKeys } from "./keys";
import { closeOverlay } from "./overlays";

const NAMES: Record<string, string> = { "Mod-k": "Ctrl K", Escape: "Esc", " ": "Space" };

export function keyLabel(keys: string): string {
  return NAMES[keys] ?? keys;
}

/** What the current view can do by keyboard. */
export function KeySheet() {
  const [bindings] = useState(currentBindings);
  const letters = letterKeys.use();
  const groups = [...new Set(bindings.map((binding) => binding.group))];
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && closeOverlay()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="scrim" />
        <Dialog.Popup className="dialog is-floating is-wide">
          <div className="dialog-b">
            <Dialog.Title>Keys</Dialog.Title>
            <div className="key-groups">
              {groups.map((group) => (
                <Group key={group} name={group} bindings={bindings.filter((binding) => binding.group === group)} />
              ))}
            </div>
            <label className="check">
              <input
                type="checkbox"
                checked={letters === "on"}
                onChange={(event) => letterKeys.set(event.target.checked ? "on" : "off")}
              />
              Single-letter keys. Switch them off if speech input triggers them.
            </label>
          </div>
          <div className="dialog-f">
            <Button onClick={closeOverlay}>Close</Button>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Group({ name, bindings }: { name: string; bindings: Binding[] }) {
  return (
    <section>
      <h3 className="small dim">{name}</h3>
      <dl className="key-list">
        {bindings.map((binding) => (
          <div key={binding.keys}>
            <dt>{binding.label}</dt>
            <dd>
              {keyLabel(binding.keys)
                .split(" ")
                .map((key) => (
                  <kbd key={key} className="kbd">
                    {key}
                  </kbd>
                ))}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

import { Dialog } from "@base-ui/react/dialog";
import { type ReactNode, useId, useState } from "react";
import { Button, WriteButton } from "./Button";
import { PanelError } from "./PanelError";

export type ConfirmProps = {
  title: string;
  /** The verb on the button. */
  verb: string;
  danger?: boolean;
  /** For long text. */
  wide?: boolean;
  /** The label of the reason field; none when absent. */
  reason?: string;
  /** What happens with the reason. */
  hint?: string;
  /** How many lines the reason field shows. */
  lines?: number;
  /** What the user has to type first. */
  typed?: string;
  children: ReactNode;
  act: (reason: string) => Promise<unknown>;
  /** Whether the caller shows what follows, instead of closing. */
  keepOpen?: boolean;
  onClose: () => void;
};

/** Asks before something happens: the consequence in words, a reason, the verb on the button. Ctrl/⌘-Enter confirms. */
export function Confirm({
  title,
  verb,
  danger = false,
  wide = false,
  reason,
  hint = "Shown in the job's events",
  lines = 2,
  typed,
  children,
  act,
  keepOpen = false,
  onClose,
}: ConfirmProps) {
  const [text, setText] = useState("");
  const [check, setCheck] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const ids = { reason: useId(), typed: useId() };
  const isReady = typed === undefined || check.trim() === typed;

  async function run() {
    if (isBusy || !isReady) return;
    setBusy(true);
    setError(null);
    try {
      await act(text.trim());
      if (!keepOpen) onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }

  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="scrim" />
        <Dialog.Popup
          className={`dialog is-floating${wide ? " is-wide" : ""}`}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void run();
          }}
        >
          <div className="dialog-b">
            <Dialog.Title>{title}</Dialog.Title>
            <Dialog.Description render={<div className="stack gap-3" />}>{children}</Dialog.Description>
            {reason !== undefined && (
              <div className="field">
                <label htmlFor={ids.reason}>{reason}</label>
                <textarea
                  id={ids.reason}
                  className="textarea"
                  rows={lines}
                  value={text}
                  onChange={(event) => setText(event.target.value)}
                />
                <span className="hint">{hint}</span>
              </div>
            )}
            {typed !== undefined && (
              <div className="field">
                <label htmlFor={ids.typed}>
                  Type <code>{typed}</code> to confirm
                </label>
                <input
                  id={ids.typed}
                  className="input is-mono"
                  value={check}
                  onChange={(event) => setCheck(event.target.value)}
                  autoComplete="off"
                />
              </div>
            )}
          </div>
          {error !== null && <PanelError error={error} />}
          <div className="dialog-f">
            <Button onClick={onClose}>Back</Button>
            <WriteButton
              look={danger ? "danger-fill" : "primary"}
              disabled={!isReady}
              busy={isBusy}
              onClick={() => void run()}
              title="Ctrl Enter"
            >
              {verb}
            </WriteButton>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

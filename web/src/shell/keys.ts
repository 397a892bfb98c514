// Keyboard shortcuts: one listener, registered bindings, sequences such as `g f`. Never inside inputs.

import { useEffect, useRef } from "react";
import { setting } from "../lib/storage";

export type Binding = { keys: string; label: string; group: string; run: () => void };

export const letterKeys = setting("letter-keys", ["on", "off"] as const, "on");
const SEQUENCE_MS = 900;

const registered = new Set<{ current: readonly Binding[] }>();

/** The bindings of what is on screen; the latest registration wins. */
export function currentBindings(): Binding[] {
  const seen = new Set<string>();
  const found: Binding[] = [];
  for (const ref of [...registered].reverse()) {
    for (const binding of ref.current) {
      if (seen.has(binding.keys)) continue;
      seen.add(binding.keys);
      found.push(binding);
    }
  }
  return found;
}

export function useKeys(bindings: readonly Binding[]) {
  const ref = useRef(bindings);
  ref.current = bindings;
  useEffect(() => {
    registered.add(ref);
    return () => {
      registered.delete(ref);
    };
  }, []);
}

export function keyName(event: KeyboardEvent): string | null {
  if (event.key === "Shift" || event.key === "Control" || event.key === "Meta" || event.key === "Alt") return null;
  const key = event.key.length === 1 ? event.key : event.key;
  if (event.ctrlKey || event.metaKey) return `Mod-${key.toLowerCase()}`;
  if (event.altKey) return null;
  return key;
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) ||
      // The editor is in a shadow root: its host is the target.
      target.dataset.typing !== undefined)
  );
}

export function isDialogOpen(): boolean {
  // A toast has the role of a dialog, but takes no keys.
  const open = '[role="dialog"]:not(.toast), [role="alertdialog"]:not(.toast), [role="menu"], [role="listbox"]';
  return document.querySelector(open) !== null;
}

/** Finds what a key press means, given the keys pressed just before. */
export function match(pressed: readonly string[], bindings: readonly Binding[]): { run?: Binding; isPrefix: boolean } {
  const text = pressed.join(" ");
  return {
    run: bindings.find((binding) => binding.keys === text),
    isPrefix: bindings.some((binding) => binding.keys.startsWith(`${text} `)),
  };
}

export function listenForKeys(): () => void {
  let pressed: string[] = [];
  let at = 0;
  const onKey = (event: KeyboardEvent) => {
    const name = keyName(event);
    if (name === null || event.defaultPrevented || (event.repeat && name.length > 1 && !name.startsWith("Arrow")))
      return;
    const isMod = name.startsWith("Mod-");
    if (!isMod && (isTyping(event.target) || isDialogOpen())) return;
    if (!isMod && name.length === 1 && letterKeys.get() === "off" && name !== "?") return;
    // Enter and Space on a focused control belong to the control.
    if (name === "Enter" && event.target instanceof HTMLElement && event.target.closest("a, button, summary")) return;
    if (event.timeStamp - at > SEQUENCE_MS) pressed = [];
    at = event.timeStamp;
    const bindings = currentBindings();
    let found = match([...pressed, name], bindings);
    pressed = found.isPrefix ? [...pressed, name] : [];
    if (found.run === undefined && !found.isPrefix) {
      found = match([name], bindings);
      pressed = found.isPrefix ? [name] : [];
    }
    if (found.run !== undefined) {
      event.preventDefault();
      found.run.run();
    }
  };
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}

import { type Ref, useEffect, useImperativeHandle, useRef } from "react";
import type { Finding } from "../../api/types";
import { createEditor, type ManifestEditor } from "./codemirror";

export type EditorHandle = { goTo: (line: number) => void };

type Props = {
  text: string;
  findings: Finding[];
  onChange: (text: string) => void;
  onSubmit: () => void;
  ref: Ref<EditorHandle>;
};

/** The manifest. Findings are shown at their lines, and below the editor for screen readers. */
export function Editor({ text, findings, onChange, onSubmit, ref }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<ManifestEditor | null>(null);
  const handlers = useRef({ onChange, onSubmit });
  handlers.current = { onChange, onSubmit };
  const first = useRef(text);

  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    // In a shadow root the editor's styles are adopted sheets; elsewhere they would be <style>, which the policy blocks.
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const made = createEditor(root, first.current, {
      onChange: (next) => handlers.current.onChange(next),
      onSubmit: () => handlers.current.onSubmit(),
    });
    editor.current = made;
    return () => {
      editor.current = null;
      made.destroy();
    };
  }, []);
  useEffect(() => editor.current?.setText(text), [text]);
  useEffect(() => editor.current?.setFindings(findings), [findings]);
  useImperativeHandle(ref, () => ({ goTo: (line) => editor.current?.goTo(line) }), []);

  return <div ref={host} className="cm-host" data-typing />;
}

import { type Ref, useRef } from "react";
import type { Finding } from "../../api/types";

type Props = {
  text: string;
  findings: Finding[];
  onChange: (text: string) => void;
  onSubmit: () => void;
  inputRef: Ref<HTMLTextAreaElement>;
};

/** A plain text area with line numbers; lines with a finding are marked. */
export function Editor({ text, findings, onChange, onSubmit, inputRef }: Props) {
  const gutter = useRef<HTMLDivElement>(null);
  const lines = text.split("\n").length;
  const worst = new Map<number, Finding["severity"]>();
  for (const { line, severity } of findings) if (worst.get(line) !== "error") worst.set(line, severity);
  return (
    <div className="ed">
      <div ref={gutter} className="ed-gutter" aria-hidden="true">
        {Array.from({ length: lines }, (_, index) => (
          <span key={index} className={worst.has(index + 1) ? `is-${worst.get(index + 1)}` : undefined}>
            {index + 1}
          </span>
        ))}
      </div>
      <textarea
        ref={inputRef}
        className="ed-text"
        aria-label="Manifest"
        aria-invalid={findings.some((finding) => finding.severity === "error")}
        aria-describedby="findings"
        spellCheck={false}
        autoCapitalize="off"
        wrap="off"
        value={text}
        onChange={(event) => onChange(event.target.value)}
        onScroll={(event) => {
          if (gutter.current !== null) gutter.current.scrollTop = event.currentTarget.scrollTop;
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            onSubmit();
          }
        }}
      />
    </div>
  );
}

import { useMemo, useState } from "react";
import { plural } from "../../lib/format";
import { Panel } from "../../ui/Panel";
import { type DiffFile, parseDiff } from "./parseDiff";

const ROWS_AT_FIRST = 400;

export function Diff({ text, isCut }: { text: string; isCut: boolean }) {
  const files = useMemo(() => parseDiff(text), [text]);
  return (
    <Panel
      title="Changes"
      sub={plural(files.length, "file")}
      footer={isCut ? "The diff is truncated to 512 KiB" : undefined}
    >
      {files.map((file, index) => (
        <File key={index} file={file} isOpen={files.length <= 20} />
      ))}
    </Panel>
  );
}

function File({ file, isOpen }: { file: DiffFile; isOpen: boolean }) {
  const [shown, setShown] = useState(ROWS_AT_FIRST);
  const rows = file.rows.slice(0, shown);
  return (
    <details open={isOpen} className="diff-d">
      <summary className="diff-file">
        <span className="wrap-any">{file.name}</span>
        <span className="push nowrap">
          <span className="add">+{file.added}</span> <span className="del">−{file.removed}</span>
        </span>
      </summary>
      <div className="diff">
        {rows.map((row, index) =>
          row.kind === "hunk" ? (
            <div key={index} className="diff-hunk">
              {row.text}
            </div>
          ) : (
            <div
              key={index}
              className={`diff-row ${row.kind === "add" ? "is-add" : row.kind === "del" ? "is-del" : ""}`}
            >
              <span>{row.old ?? ""}</span>
              <span>{row.new ?? ""}</span>
              <span>{row.kind === "add" ? "+" : row.kind === "del" ? "−" : ""}</span>
              <span className="tx">{row.text}</span>
            </div>
          ),
        )}
        {file.rows.length > shown && (
          <button type="button" className="linkish small diff-more" onClick={() => setShown(shown + 2_000)}>
            Show {file.rows.length - shown} more lines
          </button>
        )}
      </div>
    </details>
  );
}

import type { ApiError } from "../../api/problem";
import type { Finding } from "../../api/types";
import { Glyph } from "../../ui/Glyph";
import { PanelError } from "../../ui/PanelError";
import { Words } from "../../ui/Words";

/** The coordinator's findings, each with a way to its line. */
export function Findings({
  findings,
  error,
  goTo,
}: {
  findings: Finding[];
  error: ApiError | null;
  goTo: (line: number) => void;
}) {
  return (
    <div id="findings" aria-live="polite">
      {error !== null && findings.length === 0 && <PanelError error={error} />}
      {findings.length > 0 && (
        <ul className="findings">
          {findings.map((finding, index) => (
            <li key={index}>
              <span className={finding.severity === "error" ? "st-failed" : "st-warn"}>
                <Glyph name={finding.severity === "error" ? "failed" : "warn"} />
                <span className="sr">{finding.severity}: </span>
              </span>
              <button type="button" className="linkish nums" onClick={() => goTo(finding.line)}>
                line {finding.line}
              </button>
              <span className="wrap-any">
                {finding.key != null && <code>{finding.key}</code>} <Words text={finding.message} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

import { clock, plural } from "../../lib/format";
import { Glyph } from "../../ui/Glyph";
import type { DryRun } from "./useDryRun";

type Props = { dryRun: DryRun<unknown>; isCurrent: boolean; errors: number; warnings: number };

/** What the last dry run found, in the footer of the editor. */
export function Verdict({ dryRun, isCurrent, errors, warnings }: Props) {
  if (dryRun.isChecking || !isCurrent) return <span className="small dim">checking</span>;
  return (
    <span className="verdict-line" role="status">
      {errors > 0 ? (
        <span className="st st-failed">
          <Glyph name="failed" />
          {plural(errors, "error")}
        </span>
      ) : (
        dryRun.error === null && (
          <span className="st st-ok">
            <Glyph name="shipped" />
            no errors
          </span>
        )
      )}
      {warnings > 0 && (
        <span className="st st-warn">
          <Glyph name="warn" />
          {plural(warnings, "warning")}
        </span>
      )}
      {dryRun.checkedAt !== null && <span className="small dim">checked {clock(dryRun.checkedAt)} UTC</span>}
    </span>
  );
}

import { isOutage } from "../../api/problem";
import type { SubmitResponse } from "../../api/types";
import { clock } from "../../lib/format";
import { useIsCurrent } from "../../live";
import { Glyph } from "../../ui/Glyph";
import { Panel } from "../../ui/Panel";
import { Words } from "../../ui/Words";
import { FitTable } from "../job/FitTable";
import type { DryRun } from "./useDryRun";

/** Who would take the job. While the coordinator does not answer: for the last text that it checked, with its time. */
export function Placement({ dryRun }: { dryRun: DryRun<SubmitResponse> }) {
  const { answer, answeredAt, error, isChecking } = dryRun;
  const isCurrent = useIsCurrent();
  const isOld = error !== null && answeredAt !== null;
  // Of a text with errors nothing is known: an answer for an older text would be read as one for this text.
  const isInvalid = error !== null && !isOutage(error);
  const note = isChecking
    ? "checking"
    : (isOld && !isInvalid) || !isCurrent
      ? answeredAt !== null && `for the text of ${clock(answeredAt)}`
      : null;
  const outcome = answer?.forecast.answer;
  const isUnplaceable = outcome?.outcome === "waits" && outcome.unplaceable;
  return (
    <Panel title="Where it would go" sub={note || null}>
      {answer === null || outcome === undefined || isInvalid ? (
        <p className="panel-b dim">
          {error === null
            ? "The placement appears as you type."
            : "The placement appears when the manifest has no errors."}
        </p>
      ) : (
        <div className={isOld || !isCurrent ? "is-stale" : undefined}>
          <div className="panel-b gap-1">
            <p
              className={`st is-wrap ${outcome.outcome === "goes" ? "st-ok" : isUnplaceable ? "st-failed" : "st-warn"}`}
            >
              <Glyph name={outcome.outcome === "goes" ? "shipped" : isUnplaceable ? "failed" : "warn"} />
              <b className="strong">
                {outcome.outcome === "goes"
                  ? `Will run on ${outcome.factory}${outcome.engine == null ? "" : ` with engine ${outcome.engine}`}`
                  : isUnplaceable
                    ? "No factory can run it"
                    : "It will wait"}
              </b>
            </p>
            {outcome.outcome === "waits" && (
              <p>
                <Words text={answer.forecast.text} />
              </p>
            )}
            {answer.job.stage === "blocked" && <p className="dim">It first waits for its dependencies.</p>}
          </div>
          <FitTable explanation={answer.forecast} />
        </div>
      )}
    </Panel>
  );
}

import { useQuery } from "@tanstack/react-query";
import { jobExplainQuery } from "../../api/queries";
import { clock } from "../../lib/format";
import { QueryPanel } from "../../ui/Panel";
import { Words } from "../../ui/Words";
import { FitTable } from "./FitTable";

/** Why the job is where it is: one sentence first, the factories behind it. */
export function Explain({ id }: { id: string }) {
  const query = useQuery(jobExplainQuery(id));
  return (
    <QueryPanel title="Explain" query={query}>
      {(explained) => {
        const { then, now, job } = explained;
        const isPlaced = job.holderFactoryId != null;
        const isOver = job.stage === "shipped" || job.stage === "failed" || job.stage === "dead_letter";
        return (
          <>
            <div className="panel-b gap-1">
              <p className="strong measure">
                <Words text={explained.summary.charAt(0).toUpperCase() + explained.summary.slice(1)} />
              </p>
              {then != null && then.text !== undefined && (
                <p className="dim">
                  Last decision at {clock(then.at)}: <Words text={then.text} />
                </p>
              )}
              {(isPlaced || isOver) && (
                <p className="dim">
                  If it were scheduled now: <Words text={now.text} />
                </p>
              )}
            </div>
            {job.stage === "queued" ? (
              <FitTable explanation={now} />
            ) : (
              <details className="group-t scores">
                <summary>Every factory, if it were scheduled now</summary>
                <FitTable explanation={now} />
              </details>
            )}
          </>
        );
      }}
    </QueryPanel>
  );
}

import { useQuery } from "@tanstack/react-query";
import { runEvidenceQuery } from "../../api/queries";
import type { Evidence as Check, RunEvidence } from "../../api/types";
import { plural, shortSha, took } from "../../lib/format";
import { Ansi } from "../../ui/Ansi";
import { Glyph } from "../../ui/Glyph";
import { QueryPanel } from "../../ui/Panel";
import { Diff } from "./Diff";

/** What supports "done": verify output, commits, the engine's own ending, the diff. */
export function Evidence({ id, n }: { id: string; n: number }) {
  const query = useQuery(runEvidenceQuery(id, n));
  return (
    <>
      <QueryPanel
        title={`Evidence of run ${n}`}
        query={query}
        sub={() => "what was checked, not what was claimed"}
        isEmpty={isBare}
        empty={<p className="dim">No verify command ran, and the run reported no commit.</p>}
      >
        {(evidence) => (
          <>
            <ul className="evidence">
              {evidence.verify.length === 0 && <NotVerified />}
              {evidence.verify.map((check, index) => (
                <CheckRow key={index} check={check} />
              ))}
              {(evidence.refused ?? []).map((line) => (
                <li key={line}>
                  <span className="st-failed">
                    <Glyph name="failed" />
                  </span>
                  <span>{line}</span>
                </li>
              ))}
              {evidence.commits.map((commit) => (
                <li key={commit.sha}>
                  <span className="dim">
                    <Glyph name="checkpoint" />
                  </span>
                  <span>{commit.subject}</span>
                  <span className="num mono" title={commit.sha}>
                    {shortSha(commit.sha)}
                  </span>
                </li>
              ))}
            </ul>
            {evidence.ending != null && evidence.ending !== "" && (
              <div className="panel-b group-t">
                <p className="small dim">The agent's final message</p>
                <p className="measure pre-line">{evidence.ending}</p>
              </div>
            )}
          </>
        )}
      </QueryPanel>
      {query.data?.diff != null && query.data.diff !== "" && (
        <Diff text={query.data.diff} isCut={query.data.diffCut === true} />
      )}
    </>
  );
}

export function NotVerified() {
  return (
    <li>
      <span className="st-warn">
        <Glyph name="warn" />
      </span>
      <span>No verify command ran</span>
    </li>
  );
}

function isBare(evidence: RunEvidence): boolean {
  return (
    evidence.verify.length === 0 &&
    evidence.commits.length === 0 &&
    (evidence.ending ?? "") === "" &&
    (evidence.diff ?? "") === ""
  );
}

export function CheckRow({ check }: { check: Check }) {
  const isGood = check.exit === 0;
  return (
    <li>
      <span className={isGood ? "st-ok" : "st-failed"}>
        <Glyph name={isGood ? "shipped" : "failed"} />
      </span>
      <span>
        <code>{check.command}</code>{" "}
        {isGood ? "passed" : check.stopped != null ? check.stopped : `exit ${check.exit ?? "unknown"}`}
        <span className="dim"> ({check.step ?? "verify"})</span>
      </span>
      <span className="num">{took(check.tookMs)}</span>
      {check.output.trim() !== "" && (
        <details className="sub" open={!isGood}>
          <summary>{plural(check.output.trimEnd().split("\n").length, "line")} of output</summary>
          <pre className="out">
            {check.output
              .trimEnd()
              .split("\n")
              .map((line, index) => (
                <span key={index}>
                  <Ansi text={line} />
                  {"\n"}
                </span>
              ))}
          </pre>
        </details>
      )}
    </li>
  );
}

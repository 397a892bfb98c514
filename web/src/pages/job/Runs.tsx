import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { jobRunsQuery } from "../../api/queries";
import type { JobDetail, Run } from "../../api/types";
import { compact, money, shortSha } from "../../lib/format";
import { outcomeWords } from "../../lib/stages";
import { useProgress } from "../../live/jobs";
import { Age } from "../../ui/Age";
import { Glyph } from "../../ui/Glyph";
import { QueryPanel } from "../../ui/Panel";
import { Evidence } from "./Evidence";
import { historyWords } from "./Properties";

export function Runs({ job }: { job: JobDetail }) {
  const { run } = useSearch({ from: "/shell/jobs/$id" });
  const shown = run ?? (job.runs > 0 ? job.runs : undefined);
  return (
    <div className="stack">
      <RunsTable job={job} current={shown} />
      {shown !== undefined && <Evidence id={job.id} n={shown} />}
    </div>
  );
}

export function RunsTable({ job, current }: { job: JobDetail; current?: number }) {
  const query = useQuery(jobRunsQuery(job.id));
  return (
    <QueryPanel
      title="Runs"
      query={query}
      sub={() => historyWords(job)}
      isEmpty={({ items }) => items.length === 0}
      empty={
        <div>
          <h2>No run yet</h2>
          <p className="dim">A run starts when a factory takes the job.</p>
        </div>
      }
    >
      {({ items }) => (
        <table className="table is-rows is-fixed plain">
          <colgroup>
            <col className="cw-48" />
            <col />
            <col className="cw-120" />
            <col className="cw-120" />
            <col className="cw-72" />
            <col className="cw-56" />
            <col className="cw-120" />
            <col className="cw-104" />
            <col className="cw-72" />
          </colgroup>
          <thead>
            <tr>
              <th>Run</th>
              <th>Outcome</th>
              <th>Factory</th>
              <th>Engine</th>
              <th className="num">Time</th>
              <th className="num">Turns</th>
              <th className="num">Tokens in / out</th>
              <th className="num">Diff</th>
              <th className="num">Cost</th>
            </tr>
          </thead>
          <tbody>
            {[...items]
              .sort((a, b) => b.n - a.n)
              .map((run) => (
                <Row key={run.n} job={job} run={run} isCurrent={run.n === current} />
              ))}
          </tbody>
        </table>
      )}
    </QueryPanel>
  );
}

function Row({ job, run, isCurrent }: { job: JobDetail; run: Run; isCurrent: boolean }) {
  const look = outcomeWords(run.outcome);
  const live = useProgress(job.id) ?? job.progress;
  const { insertions, deletions, ...reported } = run.insights ?? {};
  const { tokensIn, tokensOut, turns, costUsd } = run.endedAt == null && live != null ? live : reported;
  return (
    <tr className={isCurrent ? "is-cursor" : undefined}>
      <td className="tr2" data-l="Run">
        <Link
          to="/jobs/$id"
          params={{ id: job.id }}
          search={{ tab: "runs", run: run.n }}
          className="link"
          resetScroll={false}
        >
          {run.n}
        </Link>
      </td>
      <td className="first" title={run.message ?? undefined}>
        <span className={`st ${look.className}`}>
          <Glyph name={look.glyph} />
          {look.word}
        </span>
        {run.sha != null && <span className="id"> {shortSha(run.sha)}</span>}
      </td>
      <td data-l="on">{run.factory}</td>
      <td data-l="engine">{run.engine ?? "–"}</td>
      <td className="num tr" data-l="took">
        <Age at={run.startedAt ?? run.grantedAt} until={run.endedAt} />
      </td>
      <td className="num hide">{turns ?? "–"}</td>
      <td className="num hide">
        {tokensIn == null && tokensOut == null ? "–" : `${compact(tokensIn ?? 0)} / ${compact(tokensOut ?? 0)}`}
      </td>
      <td className="num" data-l="diff">
        {insertions == null && deletions == null ? (
          "–"
        ) : (
          <>
            <span className="add">+{insertions ?? 0}</span> <span className="del">−{deletions ?? 0}</span>
          </>
        )}
      </td>
      <td className="num hide">{costUsd == null ? "–" : money(costUsd)}</td>
    </tr>
  );
}

import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { JobDetail } from "../../api/types";
import { compact, count, duration, exact, middleId, money, plural, shortId, shortSha } from "../../lib/format";
import { useIsCurrent, useNow } from "../../live";
import { useProgress } from "../../live/jobs";
import { Copy } from "../../ui/Copy";

export function Properties({ job }: { job: JobDetail }) {
  const needs = [...(job.capabilities ?? []), ...(job.engines ?? []).map((engine) => `engine:${engine}`)];
  return (
    <aside className="aside" aria-label="Properties">
      <section>
        <h2>Properties</h2>
        <dl className="facts">
          <Fact name="ID">
            <span className="copy">
              <span className="mono" title={job.id}>
                {middleId(job.id)}
              </span>
              <Copy text={job.id} label="Copy id" />
            </span>
          </Fact>
          {job.kind === "composite" && <Fact name="Kind">composite: follows its children</Fact>}
          {job.parentId != null && (
            <Fact name="Parent">
              <Link to="/jobs/$id" params={{ id: job.parentId }}>
                {shortId(job.parentId)}
              </Link>
            </Fact>
          )}
          <Fact name="Product">{job.productId}</Fact>
          {job.repo != null && <Fact name="Repo">{job.repo}</Fact>}
          {job.base != null && (
            <Fact name="Base">
              <span className="mono">{job.base}</span>
            </Fact>
          )}
          {job.promotedSha != null && (
            <Fact name="Branch">
              <span className="copy">
                <span className="mono" title={`aq/job/${job.id}`}>
                  aq/job/…{shortId(job.id)}
                </span>
                <Copy text={`aq/job/${job.id}`} label="Copy branch" />
              </span>
            </Fact>
          )}
          {job.completedSha != null && <Sha name="Commit" sha={job.completedSha} />}
          {job.checkpoint != null && job.checkpoint.sha !== job.completedSha && (
            <Sha name="Checkpoint" sha={job.checkpoint.sha} />
          )}
          {job.item != null && (
            <Fact name="Item">
              <Item item={job.item} />
            </Fact>
          )}
          <Fact name="Priority">{job.priority}</Fact>
          {job.pin != null && <Fact name="Pinned to">{job.pin}</Fact>}
          {job.profile != null && (
            <Fact name="Profile">
              {job.profile.ref}
              {(job.profile.applied ?? []).length > 0 && (
                <span className="dim">, sets {job.profile.applied?.join(", ")}</span>
              )}
            </Fact>
          )}
          {(job.tags ?? []).length > 0 && (
            <Fact name="Tags">
              <span className="tags">
                {job.tags?.map((tag) => (
                  <span key={tag} className="tag">
                    {tag}
                  </span>
                ))}
              </span>
            </Fact>
          )}
          <Fact name="History">{historyWords(job)}</Fact>
        </dl>
      </section>
      {job.holderFactoryId != null && (
        <section>
          <h2>Lease</h2>
          <dl className="facts">
            <Fact name="Holder">
              <Link to="/factories/$id" params={{ id: job.holderFactoryId }}>
                {job.holderFactoryId}
              </Link>
            </Fact>
            <Fact name="Epoch">{job.leaseEpoch}</Fact>
            {job.expiresAt != null && (
              <Fact name="Expires">
                <Until at={job.expiresAt} />
              </Fact>
            )}
          </dl>
        </section>
      )}
      <Budget job={job} />
      {needs.length > 0 && (
        <section>
          <h2>Needs</h2>
          <span className="tags">
            {needs.map((need) => (
              <span key={need} className="tag mono">
                {need}
              </span>
            ))}
          </span>
        </section>
      )}
    </aside>
  );
}

/** Where the job comes from. Only web addresses become links. */
function Item({ item }: { item: NonNullable<JobDetail["item"]> }) {
  const words = `${item.source}: ${item.key}`;
  if (item.url == null || !/^https?:\/\//.test(item.url)) return words;
  return (
    <a href={item.url} target="_blank" rel="noreferrer noopener">
      {words}
    </a>
  );
}

export function historyWords(job: JobDetail): string {
  return `${plural(job.runs, "run")}, ${count(job.attempts)} failed, ${plural(job.lostLeases, "lost lease")}`;
}

function Budget({ job }: { job: JobDetail }) {
  const limits = job.manifestSnapshot.budget ?? {};
  const progress = useProgress(job.id) ?? job.progress ?? undefined;
  const engineMs = useEngineTime(job);
  const costUsd = sum(job.spent?.costUsd, progress?.costUsd);
  const tokens = sum(job.spent?.tokens, sum(progress?.tokensIn, progress?.tokensOut));
  if (job.runs === 0 && limits.usd == null && limits.tokens == null && limits.wallMs == null) return null;
  return (
    <section>
      <h2>Spent</h2>
      <dl className="facts">
        <Spent name="Money" value={costUsd} limit={limits.usd} words={money} />
        <Spent name="Tokens" value={tokens} limit={limits.tokens} words={compact} />
        <Spent
          name="Engine time"
          value={engineMs}
          limit={limits.wallMs}
          words={duration}
          missing="unknown while down"
        />
      </dl>
    </section>
  );
}

/** `spent` has the ended runs: adds the one that runs. Unknown while the coordinator does not answer. */
function useEngineTime(job: JobDetail): number | null {
  const isCurrent = useIsCurrent();
  const ended = job.spent?.engineMs ?? 0;
  const isRunning = job.stage === "building" && job.run?.startedAt != null;
  const now = useNow(isRunning ? 1_000 : 3_600_000);
  if (!isRunning) return ended;
  return isCurrent ? ended + Math.max(0, now - Date.parse(job.run?.startedAt ?? "")) : null;
}

type SpentProps = {
  name: string;
  value: number | null;
  limit: number | null | undefined;
  words: (value: number) => string;
  missing?: string;
};

/** A limit that is missing has no percent and no bar. */
function Spent({ name, value, limit, words, missing = "not reported" }: SpentProps) {
  const share = limit == null || limit <= 0 || value === null ? null : Math.min(1, value / limit);
  return (
    <Fact name={name}>
      {value === null ? missing : words(value)}
      {limit == null ? (name === "Money" ? ", no limit" : "") : ` of ${words(limit)}`}
      {share !== null && (
        <svg
          className="meter"
          viewBox="0 0 100 8"
          preserveAspectRatio="none"
          role="img"
          aria-label={`${Math.round(share * 100)} % spent`}
        >
          <rect className="bg" width="100" height="8" />
          <rect className={`fg ${share >= 0.8 ? "is-warn" : ""}`} width={share * 100} height="8" />
        </svg>
      )}
    </Fact>
  );
}

/** Adds what is known; unknown only when both are. */
function sum(a: number | null | undefined, b: number | null | undefined): number | null {
  return a == null && b == null ? null : (a ?? 0) + (b ?? 0);
}

function Until({ at }: { at: string }) {
  const left = Date.parse(at) - useNow();
  return (
    <time dateTime={at} title={exact(at)}>
      {left > 0 ? `in ${duration(left)}` : "renewed by heartbeats"}
    </time>
  );
}

function Sha({ name, sha }: { name: string; sha: string }) {
  return (
    <Fact name={name}>
      <span className="copy">
        <span className="mono" title={sha}>
          {shortSha(sha)}
        </span>
        <Copy text={sha} label="Copy commit" />
      </span>
    </Fact>
  );
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

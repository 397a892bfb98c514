import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useEffect } from "react";
import { asApiError } from "../../api/problem";
import { jobQuery } from "../../api/queries";
import type { JobDetail } from "../../api/types";
import { shortId } from "../../lib/format";
import { upsertJobs } from "../../live/jobs";
import { neighbour } from "../../live/lastList";
import { PageHead } from "../../shell/Bar";
import { useKeys } from "../../shell/keys";
import { buttonClass } from "../../ui/Button";
import { Skeleton } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";
import { Artifacts } from "./Artifacts";
import { Attention } from "./Attention";
import { Dependencies } from "./Dependencies";
import { Explain } from "./Explain";
import { JobHead } from "./JobHead";
import { LogPanel } from "./LogPanel";
import { Overview } from "./Overview";
import { RawEvents } from "./RawEvents";
import { Runs } from "./Runs";
import { JOB_TABS, TAB_NAMES } from "./tabs";

const Manifest = lazy(() => import("./Manifest").then((module) => ({ default: module.Manifest })));

export function JobPage() {
  const { id } = useParams({ from: "/shell/jobs/$id" });
  const query = useQuery(jobQuery(id));
  const { data: job, error } = query;
  useEffect(() => {
    if (job !== undefined) upsertJobs([job]);
  }, [job]);
  if (job === undefined) {
    return (
      <div className="page">
        <PageHead title={`Job ${shortId(id)}`} />
        {error === null ? (
          <Skeleton rows={6} />
        ) : asApiError(error).status === 404 ? (
          <Missing />
        ) : (
          <div className="panel">
            <PanelError error={error} retry={() => void query.refetch()} />
          </div>
        )}
      </div>
    );
  }
  return <Loaded key={id} job={job} error={error} refetch={() => void query.refetch()} />;
}

function Missing() {
  return (
    <div className="panel empty">
      <div>
        <h2>Not here, or not yours</h2>
        <p className="dim">No job has this id, or your token may not see its product.</p>
      </div>
      <Link to="/jobs" className={buttonClass()}>
        All jobs
      </Link>
    </div>
  );
}

function Loaded({ job, error, refetch }: { job: JobDetail; error: unknown; refetch: () => void }) {
  const { tab = "overview", run } = useSearch({ from: "/shell/jobs/$id" });
  const navigate = useNavigate({ from: "/jobs/$id" });
  const step = (by: 1 | -1) => {
    const id = neighbour(job.id, by);
    if (id !== undefined) void navigate({ to: "/jobs/$id", params: { id }, search: { tab } });
  };
  useKeys([
    ...JOB_TABS.map((one) => ({
      keys: TAB_NAMES[one].key,
      label: TAB_NAMES[one].name,
      group: "Job",
      run: () => void navigate({ to: "/jobs/$id", params: { id: job.id }, search: { tab: one } }),
    })),
    { keys: "[", label: "Previous job of the list", group: "Job", run: () => step(-1) },
    { keys: "]", label: "Next job of the list", group: "Job", run: () => step(1) },
    { keys: "Escape", label: "All jobs", group: "Job", run: () => void navigate({ to: "/jobs" }) },
  ]);
  const counts: Partial<Record<string, number>> = { runs: job.runs, deps: job.deps?.length, artifacts: job.artifacts };
  return (
    <div className="page">
      <PageHead
        title={job.title}
        crumbs={
          <nav className="crumb" aria-label="Breadcrumb">
            <Link to="/jobs">Jobs</Link>
            <span className="sep">/</span>
            <Link to="/jobs" search={{ product: job.productId }} className="only-wide">
              {job.productId}
            </Link>
            <span className="sep only-wide">/</span>
            <span className="mono">{shortId(job.id)}</span>
          </nav>
        }
      />
      {error !== null && (
        <div className="panel">
          <PanelError error={error} retry={refetch} />
        </div>
      )}
      <JobHead job={job} />
      <Attention job={job} />
      <nav className="tabs" aria-label="Job">
        {JOB_TABS.map((one) => (
          <Link
            key={one}
            to="/jobs/$id"
            params={{ id: job.id }}
            search={{ tab: one === "overview" ? undefined : one }}
            activeOptions={{ includeSearch: true, explicitUndefined: true }}
            title={`${TAB_NAMES[one].name} (${TAB_NAMES[one].key})`}
            resetScroll={false}
          >
            {TAB_NAMES[one].name}
            {(counts[one] ?? 0) > 0 && <span className="n">{counts[one]}</span>}
          </Link>
        ))}
      </nav>
      {tab === "overview" && <Overview job={job} />}
      {tab === "log" && <LogPanel job={job} run={run} full />}
      {tab === "runs" && <Runs job={job} />}
      {tab === "explain" && <Explain id={job.id} />}
      {tab === "deps" && <Dependencies id={job.id} />}
      {tab === "manifest" && (
        <Suspense fallback={<Skeleton />}>
          <Manifest job={job} />
        </Suspense>
      )}
      {tab === "artifacts" && <Artifacts id={job.id} />}
      {tab === "events" && <RawEvents id={job.id} />}
    </div>
  );
}

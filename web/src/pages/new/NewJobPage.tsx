import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { dryRunJob, dryRunPlan, submitJob, submitPlan } from "../../api/actions";
import { jobQuery } from "../../api/queries";
import type { PlanResponse, SubmitResponse } from "../../api/types";
import { plural } from "../../lib/format";
import { PageHead } from "../../shell/Bar";
import { PanelError } from "../../ui/PanelError";
import { Form, type Subject } from "./Form";
import { PLAN_TEMPLATE, PLAN_TEMPLATES, TEMPLATE, TEMPLATES } from "./frontMatter";
import { Placement } from "./Placement";
import { PlanTree } from "./PlanTree";

const JOB: Subject<SubmitResponse> = {
  title: "Manifest",
  draft: "draft",
  first: TEMPLATE,
  templates: TEMPLATES,
  hasJobs: true,
  check: dryRunJob,
  async send(text, product, key) {
    const { job, created } = await submitJob(text, product, key);
    return { id: job.id, title: job.title, created };
  },
  unplaceable({ forecast }) {
    const isUnplaceable = forecast.answer.outcome === "waits" && forecast.answer.unplaceable;
    return isUnplaceable ? { title: "No factory can run this job", text: forecast.text } : null;
  },
  productOf: (answer) => answer.job.productId,
};

const PLAN: Subject<PlanResponse> = {
  title: "Plan",
  draft: "plan-draft",
  first: PLAN_TEMPLATE,
  templates: PLAN_TEMPLATES,
  hasJobs: false,
  check: dryRunPlan,
  async send(text, product) {
    const { jobs, created } = await submitPlan(text, product);
    return { id: jobs[0]?.id ?? "", title: plural(jobs.length, "job"), created };
  },
  unplaceable({ jobs }) {
    const stuck = jobs.filter((job) => job.placement?.unplaceable === true);
    const [first] = stuck;
    if (first?.placement === undefined) return null;
    const more = stuck.length > 1 ? ` (and ${plural(stuck.length - 1, "more job")})` : "";
    return {
      title: "No factory can run a part of this plan",
      text: `${first.title}: ${first.placement?.text ?? ""}${more}`,
    };
  },
  productOf: () => undefined,
};

/** One job, or a plan that becomes a tree of jobs. */
export function NewJobPage() {
  const { from, kind } = useSearch({ from: "/shell/new" });
  const navigate = useNavigate();
  const source = useQuery({ ...jobQuery(from ?? ""), enabled: from !== undefined });
  if (from !== undefined && source.data === undefined) {
    return (
      <div className="page">
        <PageHead title="New job" />
        {source.error !== null && (
          <div className="panel">
            <PanelError error={source.error} retry={() => void source.refetch()} />
          </div>
        )}
      </div>
    );
  }
  return (
    <div className="page">
      <PageHead title="New job" />
      <span className="seg new-kind" role="group" aria-label="What to submit">
        <button type="button" aria-pressed={kind !== "plan"} onClick={() => void navigate({ to: "/new", search: {} })}>
          One job
        </button>
        <button
          type="button"
          aria-pressed={kind === "plan"}
          onClick={() => void navigate({ to: "/new", search: { kind: "plan" } })}
        >
          A plan: a tree of jobs
        </button>
      </span>
      {kind === "plan" ? (
        <Form key="plan" subject={PLAN} aside={(dryRun, goTo) => <PlanTree dryRun={dryRun} goTo={goTo} />} />
      ) : (
        <Form
          key={from ?? ""}
          subject={JOB}
          initial={source.data?.bodyMd}
          aside={(dryRun) => <Placement dryRun={dryRun} />}
        />
      )}
    </div>
  );
}

//! `giga plan`: one Markdown file becomes a tree of jobs.

use domain::{Dep, Finding, Plan, PlannedJob, Severity, Strictness};
use protocol::{BatchRequest, BatchResponse, SubmitRequest};
use serde_json::json;

use crate::cli::PlanArgs;
use crate::failure::Failure;
use crate::output::clean;

use super::{Context, submit};

/// Draws the tree of a plan, and submits it if asked to.
pub(super) async fn plan(context: &Context<'_>, args: PlanArgs) -> Result<(), Failure> {
    let (name, text) = submit::read_manifest(&args.file)?;
    let strictness = if args.strict { Strictness::Strict } else { Strictness::Lenient };
    let plan = Plan::parse(&text, args.key.as_deref(), strictness).map_err(|findings| {
        report(context, &name, &findings);
        Failure::failed(format!("{name} has errors: nothing was submitted"))
    })?;
    report(context, &name, &plan.warnings);
    let jobs = plan.jobs.as_slice();
    if !context.out.is_json() {
        for line in drawing(jobs) {
            context.out.line(&line)?;
        }
    }
    if !args.submit {
        return match context.out.is_json() {
            true => context.out.document(&json!({ "jobs": jobs.iter().map(shown).collect::<Vec<_>>() })),
            false => {
                context.out.note(&format!("nothing was submitted: add --submit to submit {}", plan.counts()));
                Ok(())
            }
        };
    }
    let requests = jobs.iter().map(|job| request(context, &args, jobs, job)).collect();
    let client = context.client()?;
    let answer: BatchResponse = client.post("/jobs/batch", &BatchRequest { jobs: requests }).await?;
    let mut refused = 0;
    for (job, outcome) in jobs.iter().zip(&answer.outcomes) {
        if let Some(problem) = &outcome.problem {
            refused += 1;
            context.out.finding(&format!("{name}:{}: {}: {problem}", job.line, job.title));
        }
    }
    if context.out.is_json() {
        context.out.document(&answer)?;
    }
    if refused > 0 {
        return Err(Failure::failed(format!("{refused} of {} jobs were rejected", jobs.len())));
    }
    let root = answer.outcomes.first().and_then(|outcome| outcome.id);
    if let Some(root) = root.filter(|_| !context.out.is_json()) {
        context.out.id(root)?;
        let is_new = answer.outcomes.iter().any(|outcome| outcome.created);
        let what = if is_new { "submitted" } else { "already submitted:" };
        let (counts, root) = (plan.counts(), root.short());
        context.out.note(&format!("{name}: {what} {counts}; follow them with `giga job {root}`"));
    }
    Ok(())
}

fn request(context: &Context<'_>, args: &PlanArgs, jobs: &[PlannedJob], job: &PlannedJob) -> SubmitRequest {
    SubmitRequest {
        body_md: job.manifest.clone(),
        idempotency_key: Some(job.key.clone()),
        product_id: context.config.client.product.value.clone(),
        parent: job.parent.map(|parent| Dep::Key(jobs[parent].key.clone())),
        strict: args.strict,
    }
}

/// Prints findings, each with the line of its job's heading.
fn report(context: &Context<'_>, name: &str, findings: &[Finding]) {
    for finding in findings {
        let warning = if finding.severity == Severity::Warning { " warning:" } else { "" };
        let key = finding.key.as_deref().map_or_else(String::new, |key| format!(" {key}:"));
        context.out.finding(&format!("{name}:{}:{warning}{key} {}", finding.line, finding.message));
    }
}

/// The tree, one job on each line.
fn drawing(jobs: &[PlannedJob]) -> Vec<String> {
    let mut lines = vec![label(jobs, 0)];
    branch(jobs, 0, "", &mut lines);
    lines
}

fn branch(jobs: &[PlannedJob], parent: usize, indent: &str, lines: &mut Vec<String>) {
    let children: Vec<usize> = (0..jobs.len()).filter(|at| jobs[*at].parent == Some(parent)).collect();
    for at in &children {
        let is_last = children.last() == Some(at);
        lines.push(format!("{indent}{}{}", if is_last { "└─ " } else { "├─ " }, label(jobs, *at)));
        branch(jobs, *at, &format!("{indent}{}", if is_last { "   " } else { "│  " }), lines);
    }
}

fn label(jobs: &[PlannedJob], at: usize) -> String {
    let job = &jobs[at];
    let has_children = jobs.iter().any(|other| other.parent == Some(at));
    let kind = match (job.is_composite, has_children) {
        (true, _) => " (follows the jobs below)",
        (false, true) => " (runs after the jobs below)",
        (false, false) => "",
    };
    let inherited = job.parent.map(|parent| jobs[parent].after.as_slice()).unwrap_or_default();
    let after: Vec<&str> =
        job.after.iter().filter(|dep| !inherited.contains(dep)).map(|dep| jobs[*dep].title.as_str()).collect();
    let after = if after.is_empty() { String::new() } else { format!("  after {}", after.join(", ")) };
    clean(&format!("{}{kind}{after}", job.title))
}

fn shown(job: &PlannedJob) -> serde_json::Value {
    json!({
        "title": job.title, "line": job.line, "idempotencyKey": job.key, "parent": job.parent,
        "after": job.after, "kind": if job.is_composite { "composite" } else { "task" }, "bodyMd": job.manifest,
    })
}

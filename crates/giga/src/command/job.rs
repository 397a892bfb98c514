//! `giga job`: everything about one job on a page.

use domain::{JobEvent, Kind, Run, RunOutcome, StageName, Timestamp, TotalSpend};
use protocol::{JobDetail, JobView, TreeSummary};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Table, Tint, age, clean, clock_time, span};

use super::{Context, activity, events, job_id, review, status, wait};

/// The latest events, as many as fit below the facts.
const EVENTS_SHOWN: usize = 10;

/// Children in the table; `--json` has all of them.
const CHILDREN_SHOWN: usize = 50;

/// Awaited jobs that the page names.
const WAITS_SHOWN: usize = 10;

#[derive(Serialize)]
struct Page {
    job: JobDetail,
    runs: Vec<Run>,
    events: Vec<JobEvent>,
}

/// Shows one job.
pub(super) async fn job(context: &Context<'_>, id: &str) -> Result<(), Failure> {
    let client = context.client()?;
    let id = job_id::find(&client, id).await?;
    let job: JobDetail = client.get(&format!("/jobs/{id}")).await?;
    let runs = client.runs(id).await?;
    let events = events::all_of(&client, id).await?;
    let page = Page { job, runs, events };
    if context.out.is_json() {
        return context.out.document(&page);
    }
    facts(context, &page.job)?;
    if !page.runs.is_empty() {
        context.out.line("")?;
    }
    children_table(context, page.job.tree.as_ref())?;
    runs_table(context, &page.runs)?;
    events_table(context, &page.events)?;
    next_steps(context, &page.job.job)
}

fn facts(context: &Context<'_>, detail: &JobDetail) -> Result<(), Failure> {
    let (out, job, now) = (context.out, &detail.job, context.now());
    out.line(&out.palette().paint(&clean(&job.title), Tint::Strong))?;
    let reason = job.reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    let done = match job.completed_sha.is_some() || matches!(job.stage, StageName::Review | StageName::Testing) {
        true => format!(", {}", status::done(job)),
        false => String::new(),
    };
    let errand = job.errand.map_or_else(String::new, |errand| format!(", {} under way", errand.name()));
    let base = job.base.as_ref().map_or_else(String::new, |base| format!(" on `{base}`"));
    let run = job.run.as_ref().map_or_else(String::new, |run| format!(", run {}", run.n));
    let until = detail.expires_at.map_or_else(String::new, |at| format!(", lease until {}", clock_time(at)));
    let commit = job.completed_sha.as_ref().map(|sha| match job.promoted_sha.as_ref() == Some(sha) {
        true => format!("{sha}, on the job's branch"),
        false => sha.to_string(),
    });
    let spent = spent(&job.spent, job.runs);
    let counts = format!(
        "{} · {} failed · {}{spent}",
        domain::counted(job.runs, "run"),
        job.attempts,
        domain::counted(job.lost_leases, "lost lease")
    );
    let rows = [
        ("id", Some(format!("{} ({})", job.id.short(), job.id))),
        ("stage", Some(format!("{}{reason}{errand}{done}", status::stage_word(job)))),
        ("failed", job.merge_failure.as_ref().map(ToString::to_string)),
        ("blocked by", job.failed_dependency.map(|dependency| format!("{}, which failed", dependency.short()))),
        ("message", job.message.clone()),
        ("review", job.review.as_ref().map(review::summary)),
        ("kind", (job.kind == Kind::Composite).then(|| "composite: follows its children".to_owned())),
        ("parent", job.parent_id.map(|parent| parent.short().to_string())),
        ("tree", detail.tree.as_ref().map(tree_line)),
        ("waits for", some_list(&detail.waits_for.iter().take(WAITS_SHOWN).map(|dep| dep.short()).collect::<Vec<_>>())),
        ("not before", job.not_before.map(|at| at.to_string())),
        ("product", Some(job.product_id.to_string())),
        ("profile", job.profile.as_ref().map(protocol::JobProfile::text)),
        ("priority", Some(job.priority.name().to_owned())),
        ("repo", job.repo.as_ref().map(|repo| format!("{repo}{base}"))),
        ("needs", some_list(&job.capabilities)),
        ("engines", some_list(&job.engines)),
        ("factory", job.holder_factory_id.as_ref().map(|id| format!("{id}{run}, epoch {}{until}", job.lease_epoch))),
        ("doing", detail.progress.as_ref().map(activity::line)),
        ("offered to", job.target_factory_id.as_ref().map(ToString::to_string)),
        ("pinned to", job.pin.as_ref().map(ToString::to_string)),
        ("commit", commit),
        ("request", job.pull_request.as_ref().map(|request| request.url.clone())),
        ("checkpoint", job.checkpoint.as_ref().map(|saved| format!("{} in {}", saved.sha, saved.git_ref))),
        ("history", Some(counts)),
        ("item", job.item.as_ref().map(item_line)),
        (
            "artifacts",
            (job.artifacts > 0).then(|| format!("{}: `giga artifact list {}`", job.artifacts, job.id.short())),
        ),
        ("tags", some_list(&job.tags)),
        ("key", job.idempotency_key.clone()),
        ("created", Some(format!("{}, {} ago, by {}", job.created_at, age(now, job.created_at), job.created_by))),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            out.line(&format!("{name:<11} {}", clean(&value)))?;
        }
    }
    Ok(())
}

/// `github:acme/notes#12, https://github.com/acme/notes/issues/12`
fn item_line(item: &domain::TrackerItem) -> String {
    let url = item.url.as_deref().map_or_else(String::new, |url| format!(", {url}"));
    format!("{}:{}{url}", item.source, item.key)
}

fn tree_line(tree: &TreeSummary) -> String {
    let failed = if tree.failed == 0 { String::new() } else { format!(" · {} failed", tree.failed) };
    let cost = tree.spent.cost_usd.map_or_else(String::new, |usd| format!(" · {} in total", domain::dollars(usd)));
    format!("{} of {} below shipped{failed}{cost}", tree.shipped, domain::counted(tree.jobs, "job"))
}

fn children_table(context: &Context<'_>, tree: Option<&TreeSummary>) -> Result<(), Failure> {
    let mut table = Table::new(&["CHILD", "STAGE", "BELOW", "COST", "TITLE"], "TITLE");
    for child in tree.into_iter().flat_map(|tree| &tree.children).take(CHILDREN_SHOWN) {
        table.row(vec![
            child.id.short().to_string().into(),
            child.stage.as_str().into(),
            if child.jobs == 0 { String::new() } else { child.jobs.to_string() }.into(),
            child.spent.cost_usd.map_or_else(String::new, domain::dollars).into(),
            child.title.as_str().into(),
        ]);
    }
    if table.is_empty() {
        return Ok(());
    }
    context.out.line("")?;
    context.out.table(&table)?;
    match tree.map_or(0, |tree| tree.children.len()).saturating_sub(CHILDREN_SHOWN) {
        0 => Ok(()),
        more => context.out.line(&format!("and {more} more")),
    }
}

fn some_list<T: ToString>(items: &[T]) -> Option<String> {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// The known cost; an unknown cost is shown as such, and never as zero.
fn spent(spent: &TotalSpend, of: u32) -> String {
    let known = spent.cost_usd.map_or_else(String::new, |usd| format!(" · {} spent", domain::dollars(usd)));
    match spent.runs_without_cost {
        0 => known,
        runs if known.is_empty() && runs == of => " · cost unknown".to_owned(),
        runs => format!("{known} · cost of {} unknown", domain::counted(runs, "run")),
    }
}

pub(super) fn runs_table(context: &Context<'_>, runs: &[Run]) -> Result<(), Failure> {
    let mut table = Table::new(&["RUN", "EPOCH", "FACTORY", "ENGINE", "TOOK", "COST", "OUTCOME", "MESSAGE"], "MESSAGE");
    for run in runs {
        let unknown = || if run.ended_at.is_some() && run.started_at.is_some() { "unknown" } else { "" }.to_owned();
        let cost = run.insights.cost_usd.map_or_else(unknown, domain::dollars);
        table.row(vec![
            run.n.to_string().into(),
            run.epoch.to_string().into(),
            run.factory.as_str().into(),
            run.engine.as_ref().map_or("", domain::EngineName::as_str).into(),
            took(run, context.now()).into(),
            cost.into(),
            outcome(run.outcome).into(),
            run.message.as_deref().unwrap_or_default().into(),
        ]);
    }
    if table.is_empty() {
        return Ok(());
    }
    context.out.table(&table)
}

fn took(run: &Run, now: Timestamp) -> String {
    let began = run.started_at.unwrap_or(run.granted_at);
    span(run.ended_at.unwrap_or(now).since(began))
}

pub(super) fn outcome(outcome: Option<RunOutcome>) -> String {
    match outcome {
        None => "running".to_owned(),
        Some(RunOutcome::Completed) => "completed".to_owned(),
        Some(RunOutcome::Failed(reason)) => format!("failed ({reason})"),
        Some(RunOutcome::LeaseLost) => "lease lost".to_owned(),
        Some(RunOutcome::Released) => "released".to_owned(),
        Some(RunOutcome::Preempted) => "preempted".to_owned(),
        Some(RunOutcome::Cancelled) => "cancelled".to_owned(),
        Some(RunOutcome::Asked) => "asked a person".to_owned(),
        Some(RunOutcome::AwaitedSubtasks) => "waited for its subtasks".to_owned(),
        Some(RunOutcome::QuotaWindow) => "quota used up".to_owned(),
        Some(RunOutcome::Restored) => "store restored".to_owned(),
    }
}

fn events_table(context: &Context<'_>, happened: &[JobEvent]) -> Result<(), Failure> {
    let mut table = Table::new(&["TIME (UTC)", "STAGE", "EVENT"], "EVENT");
    for event in happened.iter().skip(happened.len().saturating_sub(EVENTS_SHOWN)) {
        table.row(vec![clock_time(event.at).into(), event.stage.as_str().into(), event.sentence().into()]);
    }
    context.out.line("")?;
    context.out.table(&table)
}

fn next_steps(context: &Context<'_>, job: &JobView) -> Result<(), Failure> {
    let id = job.id.short();
    let steps = match job.stage {
        StageName::Blocked if wait::asks(job) => {
            vec![format!("giga answer {id} -m \"…\"   # the answer to its question"), format!("giga cancel {id}")]
        }
        StageName::Queued | StageName::Blocked => {
            vec![format!("giga explain {id}"), format!("giga cancel {id}")]
        }
        StageName::Assigned | StageName::Building => vec![format!("giga logs -f {id}"), format!("giga cancel {id}")],
        StageName::Review => vec![
            format!("giga runs {id} --diff   # what was changed"),
            format!("giga review approve {id}"),
            format!("giga review changes {id} -m \"…\""),
        ],
        StageName::Testing => {
            let again = format!("giga requeue {id}   # back to its agent");
            let steps = vec![format!("giga ship {id}"), format!("giga logs {id}")];
            if status::is_merge_given_up(job) { [steps, vec![again]].concat() } else { steps }
        }
        StageName::Shipped => vec![format!("giga logs {id}")],
        StageName::Failed | StageName::DeadLetter => vec![format!("giga logs {id}"), format!("giga requeue {id}")],
    };
    context.out.note(&format!("\nnext: {}", steps.join("\n      ")));
    Ok(())
}

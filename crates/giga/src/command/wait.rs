//! `giga wait`: follows jobs until there is nothing left to follow.

mod progress;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use client::{Client, FeedItem};
use domain::{EventKind, JobEvent, JobId, StageName};
use protocol::{JobDetail, JobView};

use crate::cli::{Until, WaitArgs};
use crate::config::HumanDuration;
use crate::failure::{Exit, Failure};
use crate::output::clean;

use super::follow::EventFollower;
use super::{Context, job_id, status};

use progress::Progress;
pub(super) use progress::UnplaceablePolicy;

/// The pause before a job that is older than its news is read again.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(20);

/// Waits until jobs finish or need attention, and fails if one of them failed or needs an operator.
pub(super) async fn wait(context: &Context<'_>, args: WaitArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let ids = job_id::find_all(&client, &args.ids).await?;
    let policy = UnplaceablePolicy::of(args.patient);
    let watching = watch(context, &client, &ids, args.until, policy);
    let watched = within(args.timeout, &client, &ids, watching).await?;
    report(context, &watched)?;
    next_step(context, &watched);
    Ok(())
}

/// Prints how to merge a finished job that is not shipped automatically.
pub(super) fn next_step(context: &Context<'_>, jobs: &[JobView]) {
    let is_ready = |job: &&JobView| {
        let is_at_rest = job.stage == StageName::Testing && job.errand.is_none();
        is_at_rest && job.pull_request.is_none() && !status::is_merge_given_up(job)
    };
    let ready: Vec<&JobView> = jobs.iter().filter(is_ready).collect();
    match ready.as_slice() {
        [] => {}
        [job] => context.out.note(&format!("{}: `giga ship {}` merges it", status::done(job), job.id.short())),
        several => {
            let verified = several.iter().filter(|job| job.verified).count();
            let count = several.len();
            let ids: Vec<String> = several.iter().map(|job| job.id.short().to_string()).collect();
            let ids = ids.join(" ");
            context.out.note(&format!("{count} jobs are done ({verified} verified): `giga ship {ids}` merges them"));
        }
    }
}

/// Follows jobs until each is where it is waited for, or can no longer get there.
pub(super) async fn watch(
    context: &Context<'_>,
    client: &Client,
    ids: &[JobId],
    until: Until,
    patience: UnplaceablePolicy,
) -> Result<Vec<JobView>, Failure> {
    let path = match ids {
        [id] => format!("/jobs/{id}/events/stream"),
        _ => "/events/stream".to_owned(),
    };
    // The stream first: whatever happens after the jobs were read is in it.
    let mut stream = EventFollower::open(context, client, path, None).await?;
    let mut jobs = read_all(client, ids).await?;
    let mut progress = Progress::new(context, ids.len(), patience);
    jobs.values().for_each(|job| progress.found(job));
    loop {
        let open: Vec<JobId> = jobs.values().filter(|job| !is_over(job, until)).map(|job| job.id).collect();
        if open.is_empty() {
            break;
        }
        match progress.until(client, &open, stream.next()).await? {
            FeedItem::Event { event: Some(event), .. } => {
                let Some(known) = jobs.get(&event.job_id) else { continue };
                progress.happened(&event);
                // A job that had stopped may have been answered or requeued.
                let is_stopping = matches!(event.kind, EventKind::Asked | EventKind::DependencyFailed);
                if may_settle(event.stage) || is_stopping || is_settled(known) || needs_person(known) {
                    jobs.insert(event.job_id, read_behind(context, client, &event).await?);
                }
            }
            FeedItem::Progress(news) if jobs.contains_key(&news.job_id) => progress.is_doing(&news),
            FeedItem::Progress(_) | FeedItem::Lost { .. } => {}
            FeedItem::Event { event: None, .. } | FeedItem::Reset | FeedItem::Reconnected => {
                jobs = read_all(client, ids).await?;
                jobs.values().for_each(|job| progress.found(job));
            }
        }
    }
    Ok(ids.iter().filter_map(|id| jobs.remove(id)).collect())
}

/// The outcome of a future, unless it takes too long.
pub(super) async fn within<T>(
    limit: Option<HumanDuration>,
    client: &Client,
    ids: &[JobId],
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let Some(limit) = limit else { return work.await };
    match tokio::time::timeout(limit.0, work).await {
        Ok(outcome) => outcome,
        Err(_) => {
            let stage = match ids {
                [id] => read(client, *id).await.ok(),
                _ => None,
            };
            let still = stage.map_or_else(String::new, |job| format!(": still in {}", status::stage_word(&job)));
            let failure = Failure::new(Exit::TimedOut, format!("timed out after {limit}{still}"));
            Err(match ids.first() {
                Some(id) => failure.hint(format!("`giga explain {}` shows what it waits for", id.short())),
                None => failure,
            })
        }
    }
}

/// Prints the stages of the jobs; returns an error if one of them failed, or needs an operator.
pub(super) fn report(context: &Context<'_>, jobs: &[JobView]) -> Result<(), Failure> {
    for job in jobs {
        if context.out.is_json() {
            context.out.document(job)?;
        } else {
            context.out.line(&format!("{}  {:<11}  {}", job.id.short(), status::stage_word(job), clean(&job.title)))?;
        }
    }
    let undone: Vec<&JobView> = jobs.iter().filter(|job| needs_person(job)).collect();
    match undone.as_slice() {
        [] => Ok(()),
        [job] => {
            Err(Failure::failed(format!("job {} {}", clean(&job.label().to_string()), fate(job))).hint(remedy(job)))
        }
        several => {
            let fate = |job: &&JobView| format!("\n  {} {}", clean(&job.label().to_string()), fate(job));
            let fates: String = several.iter().map(fate).collect();
            let is_cancelled = |job: &&&JobView| status::stage_word(job) == "cancelled";
            let verb = match several.iter().filter(is_cancelled).count() {
                0 if several.iter().all(|job| has_failed(job)) => "failed",
                count if count == several.len() => "were cancelled",
                _ => "are not done",
            };
            let failure = format!("{} of {} jobs {verb}:{fates}", several.len(), jobs.len());
            let asking = several.iter().find(|job| asks(job));
            let first = asking.or(several.first()).map(|job| remedy(job));
            Err(Failure::failed(failure).hint(first.unwrap_or_default()))
        }
    }
}

/// Whether a job failed, or needs an operator to continue. Finished work that can be shipped is neither.
fn needs_person(job: &JobView) -> bool {
    job.needs_person()
}

fn remedy(job: &JobView) -> String {
    let id = job.id.short();
    match job.failed_dependency {
        Some(dependency) => {
            format!(
                "`giga requeue {}` tries the dependency again, `giga cancel {id}` cancels this job",
                dependency.short()
            )
        }
        None if asks(job) => answering(id),
        None if job.waits_for_review() && !status::is_merge_given_up(job) => {
            format!("`giga review list` shows whose approvals are missing, `giga review approve {id}` approves it")
        }
        None if status::is_merge_given_up(job) => {
            format!(
                "`giga ship {id}` tries the merge again, `giga requeue {id}` sends the job back to its agent with the reason"
            )
        }
        None => after_failure(id),
    }
}

/// How an operator answers a job's question.
pub(super) fn answering(id: impl Display) -> String {
    format!("`giga answer {id} -m \"…\"` answers it, and the job continues")
}

/// What an operator can do with a job that failed.
pub(super) fn after_failure(id: impl Display) -> String {
    format!("`giga logs {id}` shows what it did, `giga requeue {id}` tries it again")
}

fn fate(job: &JobView) -> String {
    let reason = job.reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    let message = job.message.as_deref().map_or_else(String::new, |message| format!(": {}", clean(message)));
    match job.stage {
        StageName::Blocked => match job.failed_dependency {
            Some(dependency) => format!("is blocked: its dependency {} failed", dependency.short()),
            None => format!("asks: {}", clean(job.question.as_deref().unwrap_or_default())),
        },
        StageName::Testing | StageName::Review => status::reason(job),
        StageName::DeadLetter => format!("is dead-lettered{reason}{message}"),
        StageName::Failed if status::stage_word(job) == "cancelled" => format!("was cancelled{message}"),
        _ => format!("failed{reason}{message}"),
    }
}

fn has_failed(job: &JobView) -> bool {
    matches!(job.stage, StageName::Failed | StageName::DeadLetter)
}

/// Whether a job is blocked on a question.
pub(crate) fn asks(job: &JobView) -> bool {
    job.asks()
}

fn is_over(job: &JobView, until: Until) -> bool {
    if job.stage.is_terminal() || needs_person(job) {
        return true;
    }
    match until {
        Until::Finished => is_settled(job),
        Until::Testing => job.stage == StageName::Testing,
        Until::Shipped => false,
    }
}

/// Whether a job has finished or waits for an operator.
pub(crate) fn is_settled(job: &JobView) -> bool {
    job.is_settled()
}

fn may_settle(stage: StageName) -> bool {
    stage.is_terminal() || matches!(stage, StageName::Review | StageName::Testing)
}

async fn read_all(client: &Client, ids: &[JobId]) -> Result<BTreeMap<JobId, JobView>, Failure> {
    let mut jobs = BTreeMap::new();
    for id in ids {
        jobs.insert(*id, read(client, *id).await?);
    }
    Ok(jobs)
}

/// A job as it is after an event. An event can arrive before the coordinator's reads include it; to accept a response that is older
/// than the last event would be to wait for ever for the next.
pub(super) async fn read_behind(context: &Context<'_>, client: &Client, event: &JobEvent) -> Result<JobView, Failure> {
    loop {
        let job = read(client, event.job_id).await?;
        if job.seq >= event.seq {
            return Ok(job);
        }
        context.clock.sleep(CATCH_UP_PAUSE).await;
    }
}

/// A job as it is now.
pub(super) async fn read(client: &Client, id: JobId) -> Result<JobView, Failure> {
    let detail: JobDetail = client.get(&format!("/jobs/{id}")).await?;
    Ok(detail.job)
}

//! Actions on jobs: `giga cancel`, `requeue`, `answer`, `ship`, `reject`, `request-changes`, `priority`, `pin`,
//! `pause` and `resume`.

use client::Client;
use domain::{JobId, StageName};
use protocol::{Action, ActionRequest, AnswerRequest, JobView};

use crate::cli::{
    AnswerArgs, CancelArgs, PauseArgs, PinArgs, PriorityArgs, RequeueArgs, ResumeArgs, ShipArgs, Until, VerdictArgs,
};
use crate::failure::Failure;
use crate::output::clean;

use super::{Context, job_id, status, wait};

/// Cancels jobs.
pub(super) async fn cancel(context: &Context<'_>, args: CancelArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let ids = job_id::find_all(&client, &args.ids).await?;
    let request = ActionRequest { message: args.message, ..ActionRequest::default() };
    act(context, &client, &ids, Action::Cancel, &request).await.map(drop)
}

/// Pauses jobs and the jobs below them.
pub(super) async fn pause(context: &Context<'_>, args: PauseArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let ids = job_id::find_all(&client, &args.ids).await?;
    let request = ActionRequest { message: args.message, ..ActionRequest::default() };
    act(context, &client, &ids, Action::Pause, &request).await.map(drop)
}

/// Ends the pause of jobs.
pub(super) async fn resume(context: &Context<'_>, args: ResumeArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let ids = job_id::find_all(&client, &args.ids).await?;
    act(context, &client, &ids, Action::Resume, &ActionRequest::default()).await.map(drop)
}

/// Requeues jobs. One that asks a question is not requeued without an answer by mistake.
pub(super) async fn requeue(context: &Context<'_>, args: RequeueArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let ids = job_id::find_all(&client, &args.ids).await?;
    if args.message.is_none() {
        refuse_unanswered(&client, &ids).await?;
    }
    let request = ActionRequest { fresh: args.fresh, message: args.message, ..ActionRequest::default() };
    let action = if args.from_checkpoint { Action::RetryFromCheckpoint } else { Action::Requeue };
    act(context, &client, &ids, action, &request).await.map(drop)
}

/// Answers a job's question; the job is requeued with the answer.
pub(super) async fn answer(context: &Context<'_>, args: AnswerArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let id = job_id::find(&client, &args.id).await?;
    let request = AnswerRequest { text: args.text.or(args.message).unwrap_or_default() };
    let answered = client.post(&format!("/jobs/{id}/answer"), &request).await;
    let job: JobView = answered.map_err(|error| {
        let hint = || format!("`giga requeue {} -m \"…\"` requeues it with a message", id.short());
        Failure::from(error).hint_at("no_question", hint)
    })?;
    show(context, &job)
}

/// Sends completed work back for changes.
pub(super) async fn request_changes(context: &Context<'_>, args: VerdictArgs) -> Result<(), Failure> {
    judge(context, args, Action::RequestChanges).await
}

/// Rejects completed work.
pub(super) async fn reject(context: &Context<'_>, args: VerdictArgs) -> Result<(), Failure> {
    judge(context, args, Action::Reject).await
}

async fn judge(context: &Context<'_>, args: VerdictArgs, action: Action) -> Result<(), Failure> {
    let client = context.client()?;
    let ids = job_id::find_all(&client, &args.ids).await?;
    let request = ActionRequest { message: args.message, ..ActionRequest::default() };
    act(context, &client, &ids, action, &request).await.map(drop)
}

/// Changes the priority of a job.
pub(super) async fn priority(context: &Context<'_>, args: PriorityArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let id = job_id::find(&client, &args.id).await?;
    let request = ActionRequest { priority: Some(args.priority), ..ActionRequest::default() };
    act(context, &client, &[id], Action::Priority, &request).await.map(drop)
}

/// Pins a job to a factory, or removes the pin.
pub(super) async fn pin(context: &Context<'_>, args: PinArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let id = job_id::find(&client, &args.id).await?;
    let request = ActionRequest { factory_id: args.factory.filter(|_| !args.clear), ..ActionRequest::default() };
    act(context, &client, &[id], Action::Pin, &request).await.map(drop)
}

async fn refuse_unanswered(client: &Client, ids: &[JobId]) -> Result<(), Failure> {
    for id in ids {
        let job = wait::read(client, *id).await?;
        if let Some(question) = job.question.as_deref().filter(|_| wait::asks(&job)) {
            let label = clean(&job.label().to_string());
            return Err(Failure::usage(format!("job {label} is waiting for an answer: {}", clean(question)))
                .hint(format!("{}; `-m \"\"` lets the agent decide", wait::answering(id.short()))));
        }
    }
    Ok(())
}

/// Merges the work of jobs.
pub(super) async fn ship(context: &Context<'_>, args: ShipArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let ids = job_id::find_all(&client, &args.ids).await?;
    let shipping = act(context, &client, &ids, Action::Ship, &ActionRequest::default()).await?;
    if !args.wait {
        let merging: Vec<String> = shipping
            .iter()
            .filter(|job| job.stage != StageName::Shipped)
            .map(|job| job.id.short().to_string())
            .collect();
        context.out.note(&match merging.is_empty() {
            true => "already merged".to_owned(),
            false => format!("merging now; follow it with `giga wait {}`", merging.join(" ")),
        });
        return Ok(());
    }
    // A failed merge leaves the job in `testing`: waiting for `shipped` alone might never end.
    let policy = wait::UnplaceablePolicy::of(args.patient);
    let jobs = wait::watch(context, &client, &ids, Until::Finished, policy).await?;
    wait::report(context, &jobs)?;
    match jobs.iter().find(|job| job.stage != StageName::Shipped) {
        None => Ok(()),
        Some(job) => {
            let why = job.message.as_deref().map_or_else(String::new, |why| format!(": {}", clean(why)));
            let label = clean(&job.label().to_string());
            Err(Failure::failed(format!("job {label} is not merged{why}")).hint(format!(
                "`giga requeue {id}` requeues it with the reason, `giga ship {id}` retries the merge",
                id = job.id.short()
            )))
        }
    }
}

async fn act(
    context: &Context<'_>,
    client: &Client,
    ids: &[JobId],
    action: Action,
    request: &ActionRequest,
) -> Result<Vec<JobView>, Failure> {
    let action = action.name();
    let mut jobs = Vec::new();
    for id in ids {
        let acted = client.post(&format!("/jobs/{id}/actions/{action}"), request).await;
        let job: JobView = acted.map_err(|error| {
            let hint = || format!("`giga job {}` shows its stage, and what can be done with it there", id.short());
            Failure::from(error).hint_at("illegal_transition", hint)
        })?;
        show(context, &job)?;
        jobs.push(job);
    }
    Ok(jobs)
}

fn show(context: &Context<'_>, job: &JobView) -> Result<(), Failure> {
    if context.out.is_json() {
        return context.out.document(job);
    }
    context.out.line(&format!("{}  {:<11}  {}", job.id.short(), status::stage_word(job), clean(&job.title)))
}

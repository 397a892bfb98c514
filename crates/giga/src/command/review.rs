//! `giga review`

use client::Client;
use domain::{JobId, StageName, VoteDecision};
use protocol::{JobDetail, JobList, JobReview, JobView, ReviewRequest, VoteRequest};

use crate::cli::{ReviewCommand, ReviewRequestArgs, VoteArgs};
use crate::failure::Failure;
use crate::output::{Table, age, clean};

use super::{Context, job_id, status};

/// Jobs on one page of the list.
const PAGE: u16 = 200;

/// Runs a verb of `giga review`.
pub(super) async fn review(context: &Context<'_>, command: ReviewCommand) -> Result<(), Failure> {
    match command {
        ReviewCommand::List => list(context).await,
        ReviewCommand::Approve(args) => vote(context, args, VoteDecision::Approve).await,
        ReviewCommand::Changes(args) => vote(context, args, VoteDecision::Changes).await,
        ReviewCommand::Reject(args) => vote(context, args, VoteDecision::Reject).await,
        ReviewCommand::Request(args) => request(context, args).await,
    }
}

/// The votes of a review, in one line: `1 of 2 approvals (ada approved), reviewers ada, grace`.
pub(super) fn summary(review: &JobReview) -> String {
    let votes: Vec<String> = review.votes.iter().map(|vote| format!("{} {}", vote.by, past(vote.decision))).collect();
    let votes = if votes.is_empty() { String::new() } else { format!(" ({})", votes.join(", ")) };
    let reviewers = match review.reviewers.as_slice() {
        [] => String::new(),
        reviewers => format!(", reviewers {}", reviewers.join(", ")),
    };
    format!("{}{votes}{reviewers}", review.progress())
}

fn past(decision: VoteDecision) -> &'static str {
    match decision {
        VoteDecision::Approve => "approved",
        VoteDecision::Changes => "requested changes",
        VoteDecision::Reject => "rejected",
    }
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let client = context.client()?;
    let jobs = in_review(&client).await?;
    if context.out.is_json() {
        return context.out.document(&jobs);
    }
    let mut table = Table::new(&["ID", "AUTHOR", "COMMIT", "WAITS", "APPROVALS", "TITLE"], "TITLE");
    for job in &jobs {
        let Some(review) = &job.review else { continue };
        let commit = review.sha.as_ref().map_or_else(|| format!("run {}", review.run), |sha| short(sha.as_str()));
        table.row(vec![
            job.id.short().to_string().into(),
            review.author.as_str().into(),
            commit.into(),
            review.waiting_since.map_or_else(String::new, |since| age(context.now(), since)).into(),
            clean(&summary(review)).into(),
            job.title.as_str().into(),
        ]);
    }
    if table.is_empty() {
        context.out.note("no job waits for review");
    }
    context.out.table(&table)
}

async fn in_review(client: &Client) -> Result<Vec<JobView>, Failure> {
    let (mut jobs, mut cursor) = (Vec::new(), String::new());
    loop {
        let page: JobList = client.get(&format!("/jobs?stage=review&limit={PAGE}{cursor}")).await?;
        jobs.extend(page.items);
        match page.next {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(jobs),
        }
    }
}

/// Votes on the commit that the user names, or on the one that the job has now.
async fn vote(context: &Context<'_>, args: VoteArgs, decision: VoteDecision) -> Result<(), Failure> {
    if decision == VoteDecision::Changes && args.message.as_deref().is_none_or(|text| text.trim().is_empty()) {
        return Err(Failure::usage("say what has to change: the agent works by it").hint("add `-m \"…\"`"));
    }
    let client = context.client()?;
    let id = job_id::find(&client, &args.id).await?;
    let request = match args.sha {
        Some(sha) => VoteRequest { decision, sha: Some(sha), run: None, comment: args.message },
        None => current(&client, id).await?.vote(decision, args.message),
    };
    let voted = client.post(&format!("/jobs/{id}/review"), &request).await;
    let job: JobView = voted.map_err(|error| {
        let hint = || format!("`giga job {}` shows its stage and its commit", id.short());
        Failure::from(error).hint_at("illegal_transition", hint).hint_at("other_commit", hint)
    })?;
    if context.out.is_json() {
        return context.out.document(&job);
    }
    show(context, &job)?;
    let commit = request.sha.as_ref().map_or_else(String::new, |sha| format!(" commit {}", short(sha.as_str())));
    let progress = job.review.as_ref().filter(|_| decision == VoteDecision::Approve);
    let progress = progress.map_or_else(String::new, |review| format!(", {}", review.progress()));
    context.out.note(&format!("{}{commit}{progress}", past(decision)));
    Ok(())
}

async fn current(client: &Client, id: JobId) -> Result<JobReview, Failure> {
    let detail: JobDetail = client.get(&format!("/jobs/{id}")).await?;
    let job = detail.job;
    let label = clean(&job.label().to_string());
    match job.review.filter(|_| job.stage == StageName::Review) {
        Some(review) => Ok(review),
        None => Err(Failure::failed(format!("job {label} is in {}, not in review", job.stage.as_str()))
            .hint("`giga review list` shows the jobs that wait for review")),
    }
}

async fn request(context: &Context<'_>, args: ReviewRequestArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let id = job_id::find(&client, &args.id).await?;
    let request = ReviewRequest { quorum: args.quorum, reviewers: args.reviewers, message: args.message };
    let job: JobView = client.post(&format!("/jobs/{id}/review/request"), &request).await?;
    if context.out.is_json() {
        return context.out.document(&job);
    }
    show(context, &job)?;
    if let Some(review) = &job.review {
        context.out.note(&clean(&summary(review)));
    }
    Ok(())
}

fn show(context: &Context<'_>, job: &JobView) -> Result<(), Failure> {
    context.out.line(&format!("{}  {:<11}  {}", job.id.short(), status::stage_word(job), clean(&job.title)))
}

fn short(sha: &str) -> String {
    sha.chars().take(10).collect()
}

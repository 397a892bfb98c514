//! The stage of a job and its reason, as a word and as a line.

use domain::{FailureReason, StageName};
use protocol::JobView;

use crate::output::clean;

/// The stage as people read it. JSON has `failed` with the reason `cancelled`, and `shipped` for a job without a repository.
pub(crate) fn stage_word(job: &JobView) -> &'static str {
    match (job.stage, job.reason) {
        (StageName::Failed, Some(FailureReason::Cancelled)) => "cancelled",
        (StageName::Shipped, _) if job.repo.is_none() => "done",
        (stage, _) => stage.as_str(),
    }
}

/// The reason for a job's stage, in one line; empty if there is none.
pub(crate) fn reason(job: &JobView) -> String {
    let message = clean(job.message.as_deref().unwrap_or_default());
    if let Some(failure) = &job.merge_failure {
        return clean(&failure.to_string());
    }
    if let Some(review) = job.review.as_ref().filter(|_| job.stage == StageName::Review) {
        return format!("waits for review, {}", review.progress());
    }
    if let Some(dependency) = job.failed_dependency {
        return format!("dependency {} failed", dependency.short());
    }
    if let Some(question) = &job.question {
        return format!("asks: {}", clean(question));
    }
    if let Some(waiting) = &job.waiting
        && (waiting.unplaceable || waiting.retry_at.is_some() || message.is_empty())
    {
        return clean(&waiting.text);
    }
    match (job.stage, job.reason) {
        (StageName::Failed, Some(FailureReason::Cancelled)) | (_, None) => message,
        (_, Some(reason)) if message.is_empty() => reason.to_string(),
        (_, Some(reason)) => format!("{reason}: {message}"),
    }
}

/// Whether the completed work was verified, in words.
pub(crate) fn done(job: &JobView) -> &'static str {
    if job.verified { "done and verified" } else { "done, not verified" }
}

/// Whether the coordinator stopped trying to push or merge the work.
pub(crate) fn is_merge_given_up(job: &JobView) -> bool {
    job.is_merge_given_up()
}

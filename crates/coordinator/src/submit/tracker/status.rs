//! The status of a job, as its item shows it. Items may be public: no message, path or name of a machine is in it.

use domain::{BlockedOn, ItemStatus, Job, Stage, StageName};

use crate::submit::tracker::book::ItemRecord;

/// The status of a job for its item.
pub(super) fn status_of(job: &Job, record: &ItemRecord) -> ItemStatus {
    let mut parts = vec![format!("**{}** — {}", job.stage().name(), explained(job))];
    if let Some(request) = job.pull_request() {
        parts.push(format!("Pull request: {}", request.url));
    }
    if let Some(changed) = record.changed_at {
        parts.push(format!(
            "The text was edited at {}; the job works on the text of {}.",
            changed.to_the_second(),
            record.created_at.to_the_second()
        ));
    }
    parts.push(format!("<sub>job `{}`</sub>", job.id()));
    ItemStatus { job: job.id(), text: parts.join("\n\n"), is_done: job.stage().name() == StageName::Shipped }
}

fn explained(job: &Job) -> String {
    match job.stage() {
        Stage::Queued { .. } if job.runs() > 0 => "waiting for another run".to_owned(),
        Stage::Queued { .. } => "waiting for a factory".to_owned(),
        Stage::Blocked { on: BlockedOn::Question(_) } => "the agent asks a question".to_owned(),
        Stage::Blocked { .. } => "waiting for other jobs".to_owned(),
        Stage::Assigned { .. } | Stage::Building { .. } => format!("an agent works on it (run {})", job.runs().max(1)),
        Stage::Review { .. } => "done, waiting for a review".to_owned(),
        Stage::Testing { .. } => "verified, ready to ship".to_owned(),
        Stage::Shipped => "merged".to_owned(),
        Stage::Failed { reason } | Stage::DeadLetter { reason } => {
            let reason = serde_json::to_value(reason).ok();
            let reason = reason.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
            format!("stopped: {}", reason.replace('_', " "))
        }
    }
}

//! Moves a pull request's branch, only while the promotion is granted (row 13).

use std::sync::Arc;
use std::time::Duration;

use client::ClientError;
use domain::{JobId, StageName};
use fail::fail_point;
use protocol::{ErrandOutcome, JobView, PromoteOrder};
use tracing::warn;
use workspace::{AcceptableBranch, BranchIntent, Error, Mirror, Promotion};

use super::Worker;
use super::errand::{ErrandResult, ErrandSubject, failed, is_restored};

/// When an unavailable coordinator is asked again whether a branch was made too late.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Worker {
    /// The branch first, then the pull request: it never shows what the branch does not hold.
    pub(super) async fn promote(&self, subject: &ErrandSubject, order: &PromoteOrder) -> ErrandResult {
        let seen = match subject.mirror.look_at_branch(subject.job).await {
            Ok(seen) => seen,
            Err(error) => return failed(&error).into(),
        };
        if let Some(outcome) = self.refuse_stale(subject.job, order).await {
            return outcome.into();
        }
        fail_point!("factory::promotion_confirmed");
        let acceptable = match &order.promoted {
            Some(_) => AcceptableBranch::OneOf(&order.acceptable),
            None => AcceptableBranch::FirstTime(&order.acceptable),
        };
        // A crash between the push and the check of the job leaves a branch that must be judged later.
        let note = seen.is_absent().then(|| note_on(subject, order));
        if let Some(note) = &note
            && let Err(error) = self.ledger.about_to_make(note).await
        {
            return failed(&error).into();
        }
        let promotion = subject.mirror.promote(seen, &order.sha, acceptable).await;
        if let Ok(Promotion::Promoted | Promotion::Moved { .. }) = &promotion {
            self.ledger.branch_is_settled(&note_on(subject, order)).await;
        }
        match promotion {
            Ok(Promotion::Promoted) => self.open_request(subject, order).await,
            Ok(Promotion::Created) => match self.unmake_if_unwanted(subject, order).await {
                Some(outcome) => outcome.into(),
                None => self.open_request(subject, order).await,
            },
            Ok(Promotion::Moved { found }) => {
                let how = match found {
                    Some(sha) => format!("moved by another writer: it shows {sha}"),
                    None => "deleted by another writer: cancel the job and requeue it to have it made anew".to_owned(),
                };
                let perhaps = match is_restored(order) {
                    true => ", perhaps from before the fleet was put back from a backup",
                    false => "",
                };
                let message = format!("the branch was {how}{perhaps}");
                ErrandOutcome::Impossible { message, conflict: None }.into()
            }
            Err(error) => failed(&error).into(),
        }
    }

    /// An errand that was given to another factory, or whose job went on without it, is dropped. Only the coordinator
    /// knows, so without its answer nothing is done.
    pub(super) async fn refuse_stale(&self, job: JobId, order: &PromoteOrder) -> Option<ErrandOutcome> {
        match self.job(job).await {
            Ok(found) if found.lease_epoch == order.lease_epoch => None,
            Ok(_) => Some(ErrandOutcome::Failed { message: "the errand is no longer ours".to_owned() }),
            Err(error) => Some(failed(&error)),
        }
    }

    /// Between the check and the push this process may have slept while its job shipped, or was cancelled and requeued:
    /// then the branch that it has just made is unwanted. That is corrected before the pull request shows it.
    async fn unmake_if_unwanted(&self, subject: &ErrandSubject, order: &PromoteOrder) -> Option<ErrandOutcome> {
        let found = match self.job_at_last(subject.job).await {
            Ok(found) => found,
            Err(error) => return Some(failed(&error)),
        };
        let note = note_on(subject, order);
        if !is_wanted(&found, &note)
            && let Err(error) = unmake(&subject.mirror, &note).await
        {
            return Some(failed(&error));
        }
        self.ledger.branch_is_settled(&note).await;
        let is_ours = found.lease_epoch == order.lease_epoch;
        (!is_ours).then(|| ErrandOutcome::Failed { message: "the errand is no longer ours".to_owned() })
    }

    /// The job as the coordinator knows it, however long that takes: until then the purpose of a branch is unknown.
    async fn job_at_last(&self, job: JobId) -> Result<JobView, ClientError> {
        loop {
            match self.job(job).await {
                Err(error) if !error.is_final() && !self.stopping.is_cancelled() => {
                    self.clock.sleep(ASKED_AGAIN_AFTER).await;
                }
                answer => return answer,
            }
        }
    }

    /// Judges the branches that an earlier process was about to make, in a task of its own: a remote may be slow.
    pub(super) async fn settle_branches(self: &Arc<Self>) {
        let notes = self.ledger.branches().await.unwrap_or_else(|error| {
            warn!(%error, "Cannot read which branches an earlier process was about to make");
            Vec::new()
        });
        let station = Arc::clone(self);
        self.tasks.spawn(async move {
            for note in notes {
                station.settle_branch(&note).await;
            }
        });
    }

    /// What cannot be settled now is left to the next process.
    async fn settle_branch(&self, note: &BranchIntent) {
        let job = note.job;
        let Ok((mirror, _)) = self.mirror(&note.repo) else { return };
        let settled = match self.job_at_last(job).await {
            Ok(found) if is_wanted(&found, note) => Ok(()),
            Ok(_) => unmake(&mirror, note).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match settled {
            Ok(()) => self.ledger.branch_is_settled(note).await,
            Err(why) => {
                warn!(job.id = %job, %why, "Cannot tell whether the branch of job {} was made too late", self.titles.label(job));
            }
        }
    }
}

/// Whether a branch at this commit is the result of its job.
fn is_wanted(job: &JobView, note: &BranchIntent) -> bool {
    let is_done = matches!(job.stage, StageName::Review | StageName::Testing);
    let is_completed = is_done && job.completed_sha.as_ref() == Some(&note.sha);
    let is_promoted = !job.stage.is_terminal() && job.promoted_sha.as_ref() == Some(&note.sha);
    job.lease_epoch == note.lease_epoch || is_completed || is_promoted
}

async fn unmake(mirror: &Mirror, note: &BranchIntent) -> Result<(), Error> {
    let job = note.job;
    warn!(job.id = %job, "The branch of job {} was made after the job had moved on, and is deleted again", job.short());
    mirror.unmake_branch(job, &note.sha).await
}

fn note_on(subject: &ErrandSubject, order: &PromoteOrder) -> BranchIntent {
    let (repo, sha) = (subject.mirror.repo().clone(), order.sha.clone());
    BranchIntent { v: 1, job: subject.job, repo, sha, lease_epoch: order.lease_epoch }
}

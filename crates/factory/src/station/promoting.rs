//! Moving a pull request's branch, by whoever may do so at that moment and nobody else (row 13).

use std::time::Duration;

use domain::JobId;
use fail::fail_point;
use protocol::{ErrandOutcome, PromoteOrder};
use tracing::warn;

use super::Station;
use super::errand::{Done, Subject, failed, is_restored};
use crate::promote::{Acceptable, Promotion};

/// How often a coordinator that is away is asked once more whether a branch was made too late.
const ASKED_AGAIN_MAX: u32 = 10;
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Station {
    /// The branch first, then the pull request: nobody is shown what the branch does not hold.
    pub(super) async fn promote(&self, subject: &Subject, order: &PromoteOrder) -> Done {
        let seen = match subject.mirror.look_at_branch(subject.job).await {
            Ok(seen) => seen,
            Err(error) => return failed(&error).into(),
        };
        if let Some(outcome) = self.refuse_stale(subject.job, order).await {
            return outcome.into();
        }
        fail_point!("factory::promotion_confirmed");
        let acceptable = match &order.promoted {
            Some(_) => Acceptable::OneOf(&order.acceptable),
            None => Acceptable::FirstTime(&order.acceptable),
        };
        match subject.mirror.promote(seen, &order.sha, acceptable).await {
            Ok(Promotion::Promoted) => self.open_request(subject, order).await,
            Ok(Promotion::Created) => match self.unmake_if_over(subject, order).await {
                Some(outcome) => outcome.into(),
                None => self.open_request(subject, order).await,
            },
            Ok(Promotion::Moved { found }) => {
                let how = match found {
                    Some(sha) => format!("moved by somebody else: it shows {sha}"),
                    None => "deleted by somebody else: cancel the job and requeue it to have it made anew".to_owned(),
                };
                let perhaps = match is_restored(order) {
                    true => ", perhaps from before the fleet was put back from a backup",
                    false => "",
                };
                let message = format!("the branch was {how}{perhaps}");
                ErrandOutcome::Impossible { message }.into()
            }
            Err(error) => failed(&error).into(),
        }
    }

    /// An errand that was given to somebody else, or whose job went on without it, is not done any more. Only the
    /// coordinator knows, so whoever cannot ask does nothing either.
    pub(super) async fn refuse_stale(&self, job: JobId, order: &PromoteOrder) -> Option<ErrandOutcome> {
        match self.job(job).await {
            Ok(found) if found.lease_epoch == order.lease_epoch => None,
            Ok(_) => Some(ErrandOutcome::Failed { message: "the errand is no longer ours".to_owned() }),
            Err(error) => Some(failed(&error)),
        }
    }

    /// Between the question and the push this process may have slept for as long as its job took to ship: the branch that
    /// it has just made was deleted for good, then. That is put right before anybody is shown it.
    async fn unmake_if_over(&self, subject: &Subject, order: &PromoteOrder) -> Option<ErrandOutcome> {
        let mut asked = self.job(subject.job).await;
        for _ in 0..ASKED_AGAIN_MAX {
            if asked.is_ok() {
                break;
            }
            self.clock.sleep(ASKED_AGAIN_AFTER).await;
            asked = self.job(subject.job).await;
        }
        let found = match asked {
            Ok(found) if found.lease_epoch == order.lease_epoch => return None,
            Ok(found) => found,
            Err(error) => return Some(failed(&error)),
        };
        if found.stage.is_terminal() {
            let job = subject.job;
            warn!(job.id = %job, "The branch of job `{job}` was made after the job was over, and is deleted again");
            if let Err(error) = subject.mirror.unmake_branch(job, &order.sha).await {
                return Some(failed(&error));
            }
        }
        Some(ErrandOutcome::Failed { message: "the errand is no longer ours".to_owned() })
    }
}

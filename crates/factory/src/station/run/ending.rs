//! The last report of a run, what is saved on the way out, and what is left behind.

use domain::Checkpoint;
use protocol::{AskWork, CompleteWork, FailWork, QuotaWork, ReleaseWork, WorkOperation};
use tracing::{info, warn};

use super::super::Station;
use super::super::holding::StopCause;
use super::super::logs::LAST_LINES_MAX;
use super::super::recovery::quarantined;
use super::super::reports::{self, Answered};
use super::{Place, Run, Verdict};
use crate::error::Error;
use crate::publish::Saved;

impl Station {
    /// The final report, the branch, and the clean-up.
    pub(super) async fn finish(&self, mut run: Run, place: Option<Place>, verdict: Verdict) {
        let job = run.key.job;
        let answered = match verdict {
            Verdict::Done { sha, insights, evidence, handover } => {
                let request = CompleteWork {
                    lease_epoch: run.key.epoch,
                    sha,
                    insights,
                    evidence,
                    message: run.activity.lock().ending.clone(),
                    checkpoint: handover.checkpoint,
                    request_text: handover.request_text,
                };
                let answered = self.report_end(&mut run, reports::complete(job, request)).await;
                if let (Answered::Completed(completed), Some(place)) = (&answered, &place)
                    && let (Some(order), Some((mirror, config, _))) = (&completed.promote, &place.repo)
                {
                    self.promote_now(mirror, config, &run.assignment, order).await;
                }
                answered
            }
            Verdict::Failed { reason, again, message, insights, evidence } => {
                let checkpoint = self.save_on_the_way_out(&mut run, place.as_ref()).await;
                self.show_unfinished(&run, place.as_ref(), checkpoint.as_ref()).await;
                let (lease_epoch, message) = (run.key.epoch, Some(message));
                let request = FailWork { lease_epoch, reason, again, message, checkpoint, insights, evidence };
                self.report_end(&mut run, reports::fail(job, request)).await
            }
            Verdict::Asked { question, insights } => {
                let checkpoint = self.save_on_the_way_out(&mut run, place.as_ref()).await;
                let request = AskWork { lease_epoch: run.key.epoch, question, checkpoint, insights };
                self.report_end(&mut run, WorkOperation::Ask { job_id: job, request }).await
            }
            Verdict::NotHere { message, insights } => {
                let checkpoint = self.save_on_the_way_out(&mut run, place.as_ref()).await;
                let message = Some(message);
                let request = ReleaseWork { lease_epoch: run.key.epoch, message, checkpoint, insights };
                self.report_end(&mut run, reports::release(job, request)).await
            }
            Verdict::Quota { engine, credential, window, insights } => {
                let checkpoint = self.save_on_the_way_out(&mut run, place.as_ref()).await;
                let request = QuotaWork {
                    lease_epoch: run.key.epoch,
                    engine,
                    credential,
                    window: window.window,
                    resets_at: window.resets_at,
                    message: Some(window.message),
                    checkpoint,
                    insights,
                };
                self.report_end(&mut run, WorkOperation::Quota { job_id: job, request }).await
            }
            Verdict::Stopped => self.let_go(&mut run, place.as_ref()).await,
        };
        self.clean_up(run, answered).await;
    }

    /// The last report of a run: after it nobody takes its output any more, so that the last lines go first. It is worth
    /// waiting for as long as the lease lasts: whoever lets go of it loses the work.
    pub(super) async fn report_end(&self, run: &mut Run, operation: WorkOperation) -> Answered {
        // Nobody writes to it any more, also where no engine was started.
        run.log_writer = None;
        let log = run.log.take();
        let last_lines = async {
            if let Some(log) = log {
                let _ = tokio::time::timeout(LAST_LINES_MAX, log).await;
            }
        };
        self.report_after(last_lines, operation, || !run.stop.is_cancelled()).await
    }

    /// A stopped run saves its work and gives the job back; one that was taken from us has nothing to give.
    pub(super) async fn let_go(&self, run: &mut Run, place: Option<&Place>) -> Answered {
        let cause = self.holdings.cause(run.key.job, run.key.epoch);
        let insights = run.activity.lock().insights.clone();
        let checkpoint = self.save_on_the_way_out(run, place).await;
        let message = match cause {
            Some(StopCause::Lost) => return Answered::Refused("the job is no longer ours".to_owned()),
            Some(StopCause::Preempted) => "a more urgent job needs the seat",
            Some(StopCause::Farewell) => "the factory is stopping",
            Some(StopCause::Unrenewed) => "the lease could not be renewed in time",
            None => "the run was stopped",
        };
        let message = Some(message.to_owned());
        let request = ReleaseWork { lease_epoch: run.key.epoch, message, checkpoint, insights };
        self.report_end(run, reports::release(run.key.job, request)).await
    }

    pub(super) async fn save_on_the_way_out(&self, run: &mut Run, place: Option<&Place>) -> Option<Checkpoint> {
        match self.save(run, place?).await {
            Ok(checkpoint) => checkpoint,
            Err(error) => {
                warn!(job.id = %run.key.job, %error, "The work of job `{}` could not be saved: its worktree is kept", run.key.job);
                run.is_unsaved = true;
                None
            }
        }
    }

    pub(super) async fn save(&self, run: &Run, place: &Place) -> Result<Option<Checkpoint>, Error> {
        let Some((mirror, _, worktree)) = &place.repo else { return Ok(None) };
        match mirror.checkpoint(worktree).await? {
            Saved::Pushed(checkpoint) => {
                let checkpoint = Checkpoint { session: run.session(), ..checkpoint };
                info!(job.id = %run.key.job, sha = %checkpoint.sha, "Saved the work of job `{}`", run.key.job);
                Ok(Some(checkpoint))
            }
            Saved::NothingToSave => Ok(None),
        }
    }

    /// A reported run leaves nothing behind; one that was fenced is kept for a person and never ships [F6].
    pub(super) async fn clean_up(&self, run: Run, answered: Answered) {
        match answered {
            Answered::Refused(why) => {
                let job = run.key.job;
                info!(job.id = %job, %why, "The run of job `{job}` was fenced: its worktree is kept for a person");
                self.ledger.remember(&quarantined(run.record)).await;
            }
            Answered::Waiting => {
                // The report is in the outbox; until it was answered the worktree is the only copy we can be sure of.
                self.ledger.remember(&quarantined(run.record)).await;
            }
            Answered::Completed(_) | Answered::Taken if run.is_unsaved => {
                self.ledger.remember(&quarantined(run.record)).await;
            }
            Answered::Completed(_) | Answered::Taken => {
                self.clear(run.key).await;
                self.ledger.forget(&run.record).await;
            }
        }
    }
}

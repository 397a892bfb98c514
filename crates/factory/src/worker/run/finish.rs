//! The last report of a run, what is saved on the way out, and what is left behind.

use domain::Checkpoint;
use protocol::{
    CompletionReport, FailureReport, QuestionReport, QuotaReport, ReleaseReport, SubtaskWaitReport, WorkOperation,
};
use tracing::{info, warn};
use workspace::{Error, SaveOutcome};

use super::super::Worker;
use super::super::held_leases::StopCause;
use super::super::logs::LAST_LINES_MAX;
use super::super::recovery::quarantined;
use super::super::reports::{self, ReportResponse};
use super::{Run, RunFailure, RunLocation, RunResult, StartFailure};

impl Worker {
    /// The final report, the branch, and the clean-up.
    pub(super) async fn finish(&self, mut run: Run, place: Option<RunLocation>, verdict: RunResult) {
        let job = run.key.job;
        let answered = match verdict {
            RunResult::Done { sha, insights, evidence, handover } => {
                self.attach_outputs(&run, place.as_ref()).await;
                let request = CompletionReport {
                    lease_epoch: run.key.epoch,
                    sha,
                    insights,
                    evidence,
                    message: run.with_left_branches(run.activity.lock().ending.clone()),
                    checkpoint: handover.checkpoint,
                    request_text: handover.request_text,
                };
                let answered = self.report_end(&mut run, reports::complete(job, request)).await;
                if let (ReportResponse::Completed(completed), Some(place)) = (&answered, &place)
                    && let (Some(order), Some((mirror, config, _))) = (&completed.promote, &place.repo)
                {
                    self.promote_now(mirror, config, &run.assignment, order).await;
                }
                answered
            }
            RunResult::Failed { failure: RunFailure { reason, again, message, no_changes }, insights, evidence } => {
                let checkpoint = self.save_on_the_way_out(&mut run, place.as_ref()).await;
                // What failed is often explained there.
                self.attach_outputs(&run, place.as_ref()).await;
                self.note_left_branches(&mut run, place.as_ref(), checkpoint.as_ref()).await;
                self.gather_unfinished(&mut run, place.as_ref(), checkpoint.as_ref()).await;
                let (lease_epoch, message) = (run.key.epoch, run.with_left_branches(Some(message)));
                let request =
                    FailureReport { lease_epoch, reason, again, message, checkpoint, insights, evidence, no_changes };
                self.report_end(&mut run, reports::fail(job, request)).await
            }
            RunResult::Asked { question, insights } => {
                let checkpoint = self.save_on_the_way_out(&mut run, place.as_ref()).await;
                let request = QuestionReport { lease_epoch: run.key.epoch, question, checkpoint, insights };
                self.report_end(&mut run, WorkOperation::Ask { job_id: job, request }).await
            }
            RunResult::AwaitsSubtasks { insights } => {
                let checkpoint = self.save_on_the_way_out(&mut run, place.as_ref()).await;
                let request = SubtaskWaitReport { lease_epoch: run.key.epoch, checkpoint, insights };
                self.report_end(&mut run, WorkOperation::AwaitSubtasks { job_id: job, request }).await
            }
            RunResult::NotHere { message, insights } => {
                let checkpoint = self.save_on_the_way_out(&mut run, place.as_ref()).await;
                let message = Some(message);
                let request = ReleaseReport { lease_epoch: run.key.epoch, message, checkpoint, insights };
                self.report_end(&mut run, reports::release(job, request)).await
            }
            RunResult::Quota { engine, credential, window, insights } => {
                let checkpoint = self.save_on_the_way_out(&mut run, place.as_ref()).await;
                let request = QuotaReport {
                    lease_epoch: run.key.epoch,
                    engine,
                    credential,
                    window: window.window,
                    resets_at: window.resets_at,
                    exhausted: window.is_exhausted,
                    message: Some(window.message),
                    checkpoint,
                    insights,
                };
                self.report_end(&mut run, WorkOperation::Quota { job_id: job, request }).await
            }
            RunResult::Stopped => self.let_go(&mut run, place.as_ref()).await,
        };
        self.clean_up(run, answered).await;
    }

    /// The last report of a run. The coordinator rejects output and evidence after it, so these go first. It is retried
    /// for as long as the lease lasts: a factory that gives up loses the work.
    pub(super) async fn report_end(&self, run: &mut Run, operation: WorkOperation) -> ReportResponse {
        // No task writes to it any more, also where no engine was started.
        run.log_writer = None;
        let (log, evidence) = (run.log.take(), run.evidence.take());
        let last_lines = async {
            if let Some(log) = log {
                let _ = tokio::time::timeout(LAST_LINES_MAX, log).await;
            }
        };
        let shown = async {
            if let Some(evidence) = evidence {
                self.send_evidence(run, &evidence).await;
            }
        };
        let first = async {
            tokio::join!(last_lines, shown);
        };
        self.report_after(first, operation, || !run.stop.is_cancelled()).await
    }

    /// A stopped run saves its work and releases the job; a fenced one has nothing to release.
    pub(super) async fn let_go(&self, run: &mut Run, place: Option<&RunLocation>) -> ReportResponse {
        if run.deadline.borrow().has_passed() {
            // A guard may have killed the engine before this process noticed: the process was stopped, or the machine
            // suspended.
            self.holdings.stop(run.key.job, run.key.epoch, StopCause::Unrenewed);
        }
        let cause = self.holdings.cause(run.key.job, run.key.epoch);
        let insights = run.activity.lock().insights.clone();
        let checkpoint = self.save_on_the_way_out(run, place).await;
        let message = match cause {
            Some(StopCause::Lost) => return ReportResponse::Refused("the job is no longer ours".to_owned()),
            Some(StopCause::Preempted) => "a more urgent job needs the seat",
            Some(StopCause::Farewell) => "the factory is stopping",
            Some(StopCause::Unrenewed) => "the lease could not be renewed in time",
            None => "the run was stopped",
        };
        let message = Some(message.to_owned());
        let request = ReleaseReport { lease_epoch: run.key.epoch, message, checkpoint, insights };
        self.report_end(run, reports::release(run.key.job, request)).await
    }

    pub(super) async fn save_on_the_way_out(&self, run: &mut Run, place: Option<&RunLocation>) -> Option<Checkpoint> {
        let place = place?;
        let (mirror, _, _) = place.repo.as_ref()?;
        let saved = match self.patiently(run, mirror, || async { Ok(self.save(run, place).await?) }).await {
            // It was stopped while it waited: save once more for the next run.
            Err(StartFailure::Stopped) => self.save(run, place).await.map_err(StartFailure::from),
            settled => settled,
        };
        match saved {
            Ok(SaveOutcome::InPart { pushed, left_out }) => {
                run.keep_what_is_left_out(&left_out);
                pushed
            }
            Ok(saved @ (SaveOutcome::Pushed(_) | SaveOutcome::NothingToSave)) => saved.checkpoint(),
            Err(error) => {
                warn!(job.id = %run.key.job, %error, "The work of job {} could not be saved: its worktree is kept", self.titles.label(run.key.job));
                run.is_unsaved = true;
                None
            }
        }
    }

    /// Records the agent's other branches of saved work.
    async fn note_left_branches(&self, run: &mut Run, place: Option<&RunLocation>, saved: Option<&Checkpoint>) {
        let Some((mirror, _, worktree)) = place.and_then(|place| place.repo.as_ref()) else { return };
        let Some(saved) = saved else { return };
        run.left_branches = self.left_branches(mirror.stray_branches(worktree).await, &saved.git_ref);
    }

    pub(super) async fn save(&self, run: &Run, place: &RunLocation) -> Result<SaveOutcome, Error> {
        let Some((mirror, _, worktree)) = &place.repo else { return Ok(SaveOutcome::NothingToSave) };
        let mut saved = mirror.checkpoint(worktree).await?;
        if let SaveOutcome::Pushed(checkpoint) | SaveOutcome::InPart { pushed: Some(checkpoint), .. } = &mut saved {
            checkpoint.session = run.session();
            info!(job.id = %run.key.job, sha = %checkpoint.sha, "Saved the work of job {}", self.titles.label(run.key.job));
        }
        Ok(saved)
    }

    /// A reported run leaves nothing behind; a fenced one is kept for a person and never ships [F6].
    pub(super) async fn clean_up(&self, run: Run, answered: ReportResponse) {
        match answered {
            ReportResponse::Refused(why) => {
                let job = run.key.job;
                info!(job.id = %job, %why, "Stopped the run of job {}: its worktree is kept", self.titles.label(job));
                self.ledger.remember(&quarantined(run.record)).await;
            }
            ReportResponse::Waiting => {
                // The report is in the outbox; until it is answered the worktree is the only certain copy.
                self.ledger.remember(&quarantined(run.record)).await;
            }
            ReportResponse::Completed(_) | ReportResponse::Taken if run.is_unsaved => {
                self.ledger.remember(&quarantined(run.record)).await;
            }
            ReportResponse::Completed(_) | ReportResponse::Taken => {
                self.clear(run.key).await;
                self.ledger.forget(&run.record).await;
            }
        }
    }
}

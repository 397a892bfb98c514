//! Reports of holders. Every write names its epoch; a stale one is fenced [I1].

use std::time::Duration;

use domain::{
    Checkpoint, Completion, ConflictingJob, ERRAND_TRIES_MAX, EngineName, ErrandKind, FailureDetails, FailureReason,
    Holder, Job, JobId, Refusal, RunOutcome, Stage, StageEvent, StageName, Timestamp,
};
use fail::fail_point;
use protocol::{
    CompletionReport, CompletionResponse, ErrandOutcome, ErrandReport, FailureReport, FailureResponse, Patch,
    QuestionReport, ReleaseReport, StageResponse, StartReport,
};
use tracing::{info, warn};

use crate::commit::Decision;
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::dispatch::accept::promote_order;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::state::FleetState;
use crate::submit::invalid;
use crate::submit::sanitize::{bounded, bounded_conflict, check, check_insights, cut, readable, short};

/// The text of a pull request: a few pages, less than every forge's limit.
const REQUEST_TEXT_CHARS_MAX: usize = 32_000;

/// The shortest postponement of a promotion or a merge.
const PUT_OFF_MIN: Duration = Duration::from_secs(1);
/// The longest pause that repetition alone leads to.
const PUT_OFF_BACKOFF_MAX: Duration = Duration::from_secs(30);
const PUT_OFF_MAX: Duration = Duration::from_secs(3_600);

impl Coordinator {
    /// A factory reports that its engine has started.
    pub async fn start(&self, who: &Principal, id: JobId, request: &StartReport) -> Result<StageResponse, Error> {
        let holder = self.holder(who, id, request.lease_epoch).await?;
        let engine = request.engine.clone();
        let answer = self
            .move_on(id, |job, now| {
                if is_repeated_start(&job, &holder, &engine) {
                    return Ok(Decision::Keep);
                }
                let started = StageEvent::Started { holder: holder.clone(), engine: engine.clone() };
                let billing = self.state.lock().billing_at(&holder.factory, &engine);
                job.apply(started, now, who.actor()).map(|job| Decision::Write(job.with_billing(billing)))
            })
            .await?;
        fail_point!("start::committed");
        Ok(answer)
    }

    /// A holder saves a checkpoint, or reports that its engine has started.
    pub async fn patch(&self, who: &Principal, id: JobId, request: &Patch) -> Result<StageResponse, Error> {
        who.factory()?;
        request.checkpoint.as_ref().map_or(Ok(()), check)?;
        if let Some(stage) = request.stage {
            if stage != StageName::Building {
                let why = format!("a factory can set only the stage `building`, not `{stage}`");
                return Err(invalid("stage", why));
            }
            let engine = request.engine.clone().unwrap_or_else(EngineName::command);
            let started = self.start(who, id, &StartReport { lease_epoch: request.lease_epoch, engine }).await?;
            if request.checkpoint.is_none() {
                return Ok(started);
            }
        }
        let holder = self.holder(who, id, request.lease_epoch).await?;
        let Some(checkpoint) = &request.checkpoint else {
            return Err(invalid("checkpoint", "a change needs a `stage` or a `checkpoint`".to_owned()));
        };
        self.move_on(id, |job, now| job.apply(saved(&holder, checkpoint), now, who.actor()).map(Decision::Write)).await
    }

    /// A holder completes its run: lease and seat are free, and the holder may move the branch.
    pub async fn complete(
        &self,
        who: &Principal,
        id: JobId,
        request: &CompletionReport,
    ) -> Result<CompletionResponse, Error> {
        let holder = self.holder(who, id, request.lease_epoch).await?;
        check_insights(&request.insights)?;
        let completion = Completion {
            sha: request.sha.clone(),
            insights: request.insights.clone(),
            evidence: bounded(&request.evidence),
            message: request.message.as_deref().map(cut),
            checkpoint: request.checkpoint.clone().map(|saved| Checkpoint { epoch: holder.epoch, ..saved }),
            request_text: request.request_text.as_deref().map(|text| short(text, REQUEST_TEXT_CHARS_MAX)),
        };
        request.checkpoint.as_ref().map_or(Ok(()), check)?;
        if request.sha.is_some() && self.look_up(id).await?.value.spec().repo.is_none() {
            return Err(invalid("sha", "the job has no repository, so it cannot have a commit".to_owned()));
        }
        let until = self.now().after(self.settings.errand_within);
        fail_point!("complete::before_commit");
        let job = self
            .amend(id, |job| {
                if self.is_repeated_completion(&job, &holder, &completion) {
                    return Ok(Decision::Keep);
                }
                let completed = StageEvent::Completed {
                    holder: holder.clone(),
                    completion: completion.clone(),
                    promote_until: until,
                };
                let now = self.now();
                let job = job.apply(completed, now, who.actor())?;
                self.ship_if_wanted(job, now).map(Decision::Write)
            })
            .await?;
        fail_point!("complete::committed");
        info!(job.id = %id, factory.id = %holder.factory, "Completed job {} on factory `{}`", job.value.label(), holder.factory);
        self.counters.completed(&holder.factory);
        self.after_report(&job.value).await;
        Ok(CompletionResponse { stage: job.value.stage().name(), promote: promote_order(&job.value) })
    }

    /// A factory reports the outcome of a promotion or a merge.
    pub async fn promote(&self, who: &Principal, id: JobId, request: &ErrandReport) -> Result<StageResponse, Error> {
        let holder = self.holder(who, id, request.lease_epoch).await?;
        let found = request.pull_request.as_ref().map(readable).transpose()?;
        let conflicting = self.conflicting_job(who, request.conflicts_with).await;
        fail_point!("promote::before_commit");
        let answer = self
            .move_on(id, |job, now| {
                let before = job.errand().map_or((0, 0), |errand| (errand.tries, errand.put_offs));
                let event = self.errand_event(&holder, &request.outcome, before, now);
                let job = match &found {
                    Some(found) => job.with_pull_request(found.clone()),
                    None => job,
                };
                let is_merge = job.errand().is_some_and(|errand| errand.kind == ErrandKind::Ship);
                let job = job.apply(event, now, who.actor())?.conflicting_with(conflicting.clone());
                match request.outcome {
                    ErrandOutcome::Done => self.ship_if_wanted(job, now).map(Decision::Write),
                    // A merge that cannot work is not requested again: an operator has to act, unless a rework may help.
                    ErrandOutcome::Impossible { .. } if is_merge => self.rework_conflict(job, now).map(Decision::Write),
                    ErrandOutcome::Failed { .. } | ErrandOutcome::PutOff { .. } | ErrandOutcome::Impossible { .. } => {
                        Ok(Decision::Write(job))
                    }
                }
            })
            .await?;
        fail_point!("promote::committed");
        self.pull_request_poller.bell.notify_one();
        Ok(answer)
    }

    /// The shipped job that a merge conflicts with, if the reporting factory may see it.
    async fn conflicting_job(&self, who: &Principal, id: Option<JobId>) -> Option<ConflictingJob> {
        let job = self.visible(who, id?).await.ok()?;
        Some(ConflictingJob { job_id: job.value.id(), title: Some(job.value.spec().title.clone()) })
    }

    /// A holder's attempt failed: the coordinator alone decides what follows.
    pub async fn fail(&self, who: &Principal, id: JobId, request: &FailureReport) -> Result<FailureResponse, Error> {
        let holder = self.holder(who, id, request.lease_epoch).await?;
        check_insights(&request.insights)?;
        if !request.reason.may_be_reported() {
            return Err(Refusal::NotAWorkersReason(request.reason).into());
        }
        request.checkpoint.as_ref().map_or(Ok(()), check)?;
        let jitter = self.ports.entropy.fraction();
        let account = FailureDetails {
            insights: request.insights.clone(),
            evidence: bounded(&request.evidence),
            message: request.message.as_deref().map(cut),
            no_changes: request.no_changes,
        };
        let job = self
            .amend(id, |job| {
                let now = self.now();
                let spec = &job.spec().retry;
                let failure = (request.reason, request.again);
                let verdict = self.settings.retry.after_failure(spec, job.attempts(), failure, now, jitter);
                let job = self.with_checkpoint(job, &holder, request.checkpoint.as_ref(), now, who)?;
                let failed = StageEvent::AttemptFailed {
                    holder: holder.clone(),
                    reason: request.reason,
                    account: account.clone(),
                    verdict,
                };
                job.apply(failed, now, who.actor()).map(Decision::Write)
            })
            .await?;
        fail_point!("fail::committed");
        let (reason, stage) = (request.reason, job.value.stage().name());
        warn!(job.id = %id, reason = %reason, job.stage = %stage, "Attempt of job {} failed on factory `{}` ({reason}), now {stage}", job.value.label(), holder.factory);
        self.counters.failed(&holder.factory, is_the_factorys_fault(reason));
        self.after_report(&job.value).await;
        Ok(FailureResponse { stage, not_before: job.value.not_before() })
    }

    /// A holder's agent asks the operator a question: the job is parked, and uses no seat meanwhile.
    pub async fn ask(&self, who: &Principal, id: JobId, request: &QuestionReport) -> Result<StageResponse, Error> {
        let holder = self.holder(who, id, request.lease_epoch).await?;
        check_insights(&request.insights)?;
        request.checkpoint.as_ref().map_or(Ok(()), check)?;
        let account = FailureDetails { insights: request.insights.clone(), ..FailureDetails::default() };
        let question = cut(&request.question);
        self.move_on(id, |job, now| {
            let job = self.with_checkpoint(job, &holder, request.checkpoint.as_ref(), now, who)?;
            let (holder, question, account) = (holder.clone(), question.clone(), account.clone());
            job.apply(StageEvent::Asked { holder, question, account }, now, who.actor()).map(Decision::Write)
        })
        .await
    }

    /// A holder releases the job.
    pub async fn release(&self, who: &Principal, id: JobId, request: &ReleaseReport) -> Result<StageResponse, Error> {
        let holder = self.holder(who, id, request.lease_epoch).await?;
        check_insights(&request.insights)?;
        request.checkpoint.as_ref().map_or(Ok(()), check)?;
        let message = request.message.as_deref().map(cut);
        self.move_on(id, |job, now| {
            let job = self.with_checkpoint(job, &holder, request.checkpoint.as_ref(), now, who)?;
            let released = StageEvent::Released {
                holder: holder.clone(),
                message: message.clone(),
                insights: request.insights.clone(),
                // A preempted job did nothing wrong: it may run elsewhere at once.
                not_before: match job.pending_preemption() {
                    Some(_) => None,
                    None => self.settings.retry.after_release(job.releases(), now),
                },
            };
            job.apply(released, now, who.actor()).map(Decision::Write)
        })
        .await
    }

    /// One fenced change, its effects, and the job's stage afterwards.
    pub(crate) async fn move_on(
        &self,
        id: JobId,
        decide: impl Fn(Job, Timestamp) -> Result<Decision, Refusal>,
    ) -> Result<StageResponse, Error> {
        let job = self.amend(id, |job| decide(job, self.now())).await?;
        self.after_report(&job.value).await;
        Ok(answer(&job.value))
    }

    /// The effects of a job that ended or waits for an operator. Idempotent; the sweep does the same.
    pub(crate) async fn after_report(&self, job: &Job) {
        if !job.stage().name().is_terminal() {
            return self.settle_parent_of_subtask(job).await;
        }
        self.settle_waiters(job).await;
        if let Stage::DeadLetter { reason } = job.stage() {
            self.mirror_dead_letter(job, *reason);
        }
    }

    /// Whether a holder repeats a completion whose answer it did not get, and the job is still in the state after that
    /// completion: the branch is still this holder's to move. Without a commit there is no branch, and no lease any
    /// more.
    fn is_repeated_completion(&self, job: &Job, holder: &Holder, completion: &Completion) -> bool {
        if completion.sha.is_none() {
            let is_its = job.completed_epoch() == Some(holder.epoch) && job.completed_by() == Some(&holder.factory);
            return is_its && job.completed().is_none() && self.is_where_completion_put_it(job);
        }
        let is_same_run = job.run().is_some_and(|run| {
            let is_its = run.epoch == holder.epoch && run.factory == holder.factory;
            is_its && run.outcome == Some(RunOutcome::Completed) && run.sha == completion.sha
        });
        is_same_run && job.lease().is_some_and(|lease| lease.factory == holder.factory)
    }

    /// Whether a job that was completed without a commit has not moved on since. In a product that ships automatically
    /// the completion ships it.
    fn is_where_completion_put_it(&self, job: &Job) -> bool {
        match job.stage() {
            Stage::Review { .. } | Stage::Testing { .. } => true,
            Stage::Shipped => self.ships_by_itself(job) || job.spec().repo.is_none(),
            _ => false,
        }
    }

    fn ships_by_itself(&self, job: &Job) -> bool {
        ships_by_itself(&self.state.lock(), job)
    }

    /// Ships finished jobs of products that ship automatically, also those finished before the product did. A job
    /// without a repository that an earlier version left in `testing` ends here as well. Idempotent; the sweep does the
    /// same.
    pub(crate) async fn ship_ready(&self) {
        let ready: Vec<JobId> = {
            let state = self.state.lock();
            let is_ready = |job: &&Job| is_ready(job) && (ships_by_itself(&state, job) || job.spec().repo.is_none());
            state.jobs().map(|job| &*job.value).filter(is_ready).map(Job::id).collect()
        };
        for id in ready {
            let shipping = self.amend(id, |job| match is_ready(&job) {
                true => job.apply(StageEvent::ShipRequested, self.now(), COORDINATOR).map(Decision::Write),
                false => Ok(Decision::Keep),
            });
            match shipping.await {
                Ok(job) => self.after_report(&job.value).await,
                Err(error) => warn!(job.id = %id, %error, "Could not ship job {}, the sweep retries", self.label(id)),
            }
        }
    }

    /// Starts a rework round for a merge conflict, as long as the job has one left.
    fn rework_conflict(&self, job: Job, now: Timestamp) -> Result<Job, Refusal> {
        let (round, of) = (job.conflict_rounds() + 1, self.settings.conflict_rounds_max);
        match job.merge_conflict() {
            Some(conflict) if round <= of => {
                let message = cut(&format!("{conflict}: rework round {round} of {of}"));
                job.reworked_for_conflict(message, now, COORDINATOR)
            }
            _ => Ok(job),
        }
    }

    /// A product that ships automatically requests the merge as soon as the branch has the work. So does a job whose
    /// merge was requested before a conflict was reworked. A job without a repository has nothing to merge: it is done
    /// at once.
    pub(crate) fn ship_if_wanted(&self, job: Job, now: Timestamp) -> Result<Job, Refusal> {
        let ships = self.ships_by_itself(&job) || job.ships_after_rework() || job.spec().repo.is_none();
        match job.stage() {
            Stage::Testing { errand: None, .. } if ships && job.promoted() == job.completed() => {
                job.apply(StageEvent::ShipRequested, now, COORDINATOR)
            }
            _ => Ok(job),
        }
    }

    pub(crate) fn with_checkpoint(
        &self,
        job: Job,
        holder: &Holder,
        checkpoint: Option<&Checkpoint>,
        now: Timestamp,
        who: &Principal,
    ) -> Result<Job, Refusal> {
        match checkpoint {
            Some(checkpoint) => job.apply(saved(holder, checkpoint), now, who.actor()),
            None => Ok(job),
        }
    }

    fn errand_event(&self, holder: &Holder, outcome: &ErrandOutcome, before: (u32, u32), now: Timestamp) -> StageEvent {
        let (tries, put_offs) = before;
        let holder = holder.clone();
        match outcome {
            ErrandOutcome::Done => StageEvent::ErrandDone { holder },
            ErrandOutcome::Failed { message } => {
                let retry_at = (tries + 1 < ERRAND_TRIES_MAX).then(|| now.after(self.settings.retry.backoff));
                StageEvent::ErrandFailed { holder, message: cut(message), retry_at, conflict: None }
            }
            ErrandOutcome::PutOff { message, retry_after_ms } => {
                let pause = postpone_for(Duration::from_millis(*retry_after_ms), put_offs);
                StageEvent::ErrandPutOff { holder, message: cut(message), retry_at: now.after(pause) }
            }
            ErrandOutcome::Impossible { message, conflict } => {
                let conflict = conflict.as_ref().map(bounded_conflict);
                StageEvent::ErrandFailed { holder, message: cut(message), retry_at: None, conflict }
            }
        }
    }

    /// The reporting holder, if its token's scope includes the job's product [T3].
    pub(crate) async fn holder(&self, who: &Principal, id: JobId, epoch: domain::Epoch) -> Result<Holder, Error> {
        self.workable(who, id).await?;
        Ok(Holder { epoch, factory: who.factory()?.clone() })
    }
}

/// The pause of an errand that was postponed this often in a row: as long as its factory requests, and longer each
/// time, so that a factory that postpones in a loop does not fill the store.
fn postpone_for(asked: Duration, put_offs: u32) -> Duration {
    let backoff = domain::doubled(PUT_OFF_MIN, put_offs, PUT_OFF_BACKOFF_MAX);
    asked.clamp(backoff, PUT_OFF_MAX)
}

fn saved(holder: &Holder, checkpoint: &Checkpoint) -> StageEvent {
    let checkpoint = Checkpoint { epoch: holder.epoch, ..checkpoint.clone() };
    StageEvent::Checkpointed { holder: holder.clone(), checkpoint }
}

pub(crate) fn ships_by_itself(state: &FleetState, job: &Job) -> bool {
    state.product(job.product()).is_some_and(|product| product.auto_ship)
}

/// Whether a job is done, its branch has the work, and its merge was not abandoned.
pub(crate) fn is_ready(job: &Job) -> bool {
    let is_at_rest = matches!(job.stage(), Stage::Testing { errand: None, .. });
    is_at_rest && job.promoted() == job.completed() && !job.is_merge_failed() && !job.is_escalated()
}

/// Whether a start is a retry whose first answer was lost.
fn is_repeated_start(job: &Job, holder: &Holder, engine: &EngineName) -> bool {
    let is_ours = job.lease().is_some_and(|lease| lease.epoch == holder.epoch && lease.factory == holder.factory);
    let is_started = job.run().is_some_and(|run| run.started_at.is_some() && run.engine.as_ref() == Some(engine));
    is_ours && is_started && job.stage().name() == StageName::Building
}

/// Whether a failure is a fault of the machine rather than of the job.
fn is_the_factorys_fault(reason: FailureReason) -> bool {
    matches!(reason, FailureReason::Crash | FailureReason::CapabilityMismatch | FailureReason::NoEngine)
}

fn answer(job: &Job) -> StageResponse {
    StageResponse { stage: job.stage().name(), lease_epoch: job.epoch() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errand_postponed_in_a_loop_waits_longer_each_time() {
        let secs = Duration::from_secs;
        let pauses: Vec<u64> = (0..7).map(|put_offs| postpone_for(Duration::ZERO, put_offs).as_secs()).collect();

        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!((postpone_for(secs(60), 9), postpone_for(secs(9_000), 0)), (secs(60), PUT_OFF_MAX));
    }
}

//! Actions of operators on jobs [J10].

use std::sync::Arc;

use domain::{
    BlockedOn, Job, JobId, KeepCheckpoint, Refusal, Revision, Stage, StageEvent, StageName, Timestamp, Versioned,
};
use protocol::{Action, ActionRequest, Directive, JobView};
use tracing::info;

use crate::commit::{Decision, Target};
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::invalid;
use crate::submit::sanitize::cut;

impl Coordinator {
    /// Runs an operator's action.
    pub async fn act(
        &self,
        who: &Principal,
        id: JobId,
        action: Action,
        request: ActionRequest,
    ) -> Result<JobView, Error> {
        self.act_at(who, id, None, action, request).await
    }

    /// Runs an operator's action, if the job is still at `expected` where that is given.
    pub async fn act_at(
        &self,
        who: &Principal,
        id: JobId,
        expected: Option<Revision>,
        action: Action,
        request: ActionRequest,
    ) -> Result<JobView, Error> {
        let target = Target { id, expected };
        let before = self.look_up(id).await?;
        if !who.sees(before.value.product()) {
            return Err(Error::NoSuchJob(id));
        }
        who.require_operator(before.value.product())?;
        let after = match action {
            Action::Cancel => self.cancel(who, target, &before, request).await?,
            Action::Ship if before.value.spec().repo.is_none() => return Err(Refusal::NothingToShip.into()),
            Action::Ship => self.ship(who, target).await?,
            Action::Priority => {
                let priority = request.priority.ok_or_else(|| invalid("priority", "which one?".to_owned()))?;
                self.change(target, |job, now| Ok(job.with_priority(priority, now, who.actor()))).await?
            }
            Action::Pause => {
                let message = request.message.as_deref().map(cut).filter(|message| !message.trim().is_empty());
                let paused = |job: Job| match job.pause() {
                    Some(_) => Ok(Decision::Keep),
                    None => job.paused(message.clone(), self.now(), &who.name).map(Decision::Write),
                };
                self.amend(target, paused).await?
            }
            Action::Resume => self.resume(who, target, &before.value).await?,
            Action::Pin => {
                self.change(target, |job, now| Ok(job.with_pin(request.factory_id.clone(), now, who.actor()))).await?
            }
            Action::Reject => {
                let event = StageEvent::Rejected { message: request.message.as_deref().map(cut) };
                self.apply_by(who, target, event).await?
            }
            Action::RequestChanges => {
                let event = StageEvent::ChangesRequested { message: request.message.as_deref().map(cut) };
                self.change(target, |job, now| Ok(job.apply(event.clone(), now, who.actor())?.with_new_rounds()))
                    .await?
            }
            Action::Requeue | Action::RetryFromCheckpoint => {
                let checkpoint = if request.fresh { KeepCheckpoint::Drop } else { KeepCheckpoint::Keep };
                self.requeue(who, target, checkpoint, request.message).await?
            }
        };
        let stage = after.value.stage().name();
        info!(job.id = %id, job.stage = %stage, by = %who.name, "`{}` requested {} of job {}", who.name, action.name(), after.value.label());
        if before.value.stage().name().is_terminal() {
            // Blocked jobs that failed with it wait for it again.
            self.settle_waiters(&after.value).await;
        }
        self.after_report(&after.value).await;
        match action {
            Action::Cancel => self.cancel_below(&after.value).await,
            Action::Priority => self.descend_priority(&after.value, &who.actor()).await,
            _ => {}
        }
        Ok(JobView::of(&after.value, after.revision))
    }

    /// Answers the question of a job's agent, if the job is still at `expected` where that is given. The job is requeued
    /// with the answer.
    pub async fn answer(
        &self,
        who: &Principal,
        id: JobId,
        expected: Option<Revision>,
        text: &str,
    ) -> Result<JobView, Error> {
        let before = self.look_up(id).await?;
        if !who.sees(before.value.product()) {
            return Err(Error::NoSuchJob(id));
        }
        who.require_operator(before.value.product())?;
        let answered =
            self.amend(Target { id, expected }, |job| answered(job, text, self.now(), who).map(Decision::Write));
        let after = answered.await?;
        info!(job.id = %id, by = %who.name, "`{}` answered the question of job {}", who.name, after.value.label());
        self.after_report(&after.value).await;
        Ok(JobView::of(&after.value, after.revision))
    }

    /// Dismisses a failed or dead-lettered job: it leaves the lists of what needs an operator, and the alerts.
    pub async fn dismiss(
        &self,
        who: &Principal,
        id: JobId,
        expected: Option<Revision>,
        message: Option<String>,
    ) -> Result<JobView, Error> {
        let before = self.look_up(id).await?;
        if !who.sees(before.value.product()) {
            return Err(Error::NoSuchJob(id));
        }
        who.require_operator(before.value.product())?;
        let message = message.as_deref().map(cut);
        let dismissed = self.amend(Target { id, expected }, |job| match job.is_dismissed() {
            true => Ok(Decision::Keep),
            false => job.dismiss(message.as_deref(), self.now(), who.actor()).map(Decision::Write),
        });
        let after = dismissed.await?;
        info!(job.id = %id, by = %who.name, "`{}` dismissed job {}", who.name, after.value.label());
        Ok(JobView::of(&after.value, after.revision))
    }

    async fn cancel(
        &self,
        who: &Principal,
        target: Target,
        before: &Versioned<Arc<Job>>,
        request: ActionRequest,
    ) -> Result<Versioned<Arc<Job>>, Error> {
        let id = before.value.id();
        let cancelled = StageEvent::Cancelled { message: request.message.as_deref().map(cut) };
        let after =
            self.change(target, |job, now| self.with_usage(job).apply(cancelled.clone(), now, who.actor())).await?;
        // The holder also learns it with its next renewal; this is only faster.
        if let Some(lease) = before.value.lease() {
            let directive = Directive::Cancel { job_id: id, lease_epoch: lease.epoch };
            self.inboxes.direct(&lease.factory, directive);
        }
        Ok(after)
    }

    /// Requeues a job: a failed one, one that waits for an answer (with the answer), or a finished one whose work has
    /// to be redone, because it no longer merges or the operator wants it changed.
    async fn requeue(
        &self,
        who: &Principal,
        target: Target,
        checkpoint: KeepCheckpoint,
        message: Option<String>,
    ) -> Result<Versioned<Arc<Job>>, Error> {
        if let Some(parent) = self.cancelled_ancestor(target.id).await? {
            return Err(Refusal::ParentCancelled(parent).into());
        }
        let message = message.as_deref().map(cut).filter(|message| !message.trim().is_empty());
        let is_fresh = checkpoint == KeepCheckpoint::Drop;
        let requeued = |job: Job, now| match job.stage() {
            Stage::Review { .. } | Stage::Testing { .. } => {
                // Without a message the next run gets the reason that the job shows: why its merge failed. A conflict
                // is passed on whole.
                let shown = || job.message().filter(|_| job.merge_conflict().is_none()).map(str::to_owned);
                let message = message.clone().or_else(shown);
                let changes = StageEvent::ChangesRequested { message };
                let job = job.apply(changes, now, who.actor())?.with_new_rounds();
                Ok(if is_fresh { job.without_checkpoint() } else { job })
            }
            Stage::Blocked { on: BlockedOn::Question(_) } => {
                answered(job, message.as_deref().unwrap_or_default(), now, who)
            }
            _ => {
                let message = message.clone();
                job.apply(StageEvent::Requeued { checkpoint, message }, now, who.actor())
            }
        };
        self.amend(target, |job| match is_fresh && message.is_none() && job.is_queued_afresh() {
            // A repeated request: there is nothing left to discard.
            true => Ok(Decision::Keep),
            false => requeued(job, self.now()).map(Decision::Write),
        })
        .await
    }

    /// Ends the pause of a job, and so of those below it.
    async fn resume(&self, who: &Principal, target: Target, before: &Job) -> Result<Versioned<Arc<Job>>, Error> {
        let paused_by = self.state.lock().paused_by(before).map(|(id, _)| id);
        if let Some(above) = paused_by.filter(|id| *id != target.id) {
            return Err(Refusal::ParentPaused(above).into());
        }
        let resumed = |job: Job| match job.pause() {
            Some(_) => Ok(Decision::Write(job.resumed(self.now(), &who.name))),
            None => Ok(Decision::Keep),
        };
        self.amend(target, resumed).await
    }

    async fn ship(&self, who: &Principal, target: Target) -> Result<Versioned<Arc<Job>>, Error> {
        let now = self.now();
        self.amend(target, |job| {
            let is_under_way = matches!(
                job.stage(),
                Stage::Testing { errand: Some(errand), .. } if errand.kind == domain::ErrandKind::Ship
            );
            if is_under_way || job.stage().name() == StageName::Shipped {
                return Ok(Decision::Keep);
            }
            job.apply(StageEvent::ShipRequested, now, who.actor()).map(Decision::Write)
        })
        .await
    }

    async fn apply_by(&self, who: &Principal, target: Target, event: StageEvent) -> Result<Versioned<Arc<Job>>, Error> {
        self.change(target, |job, now| job.apply(event.clone(), now, who.actor())).await
    }

    async fn change(
        &self,
        target: Target,
        decide: impl Fn(Job, Timestamp) -> Result<Job, Refusal>,
    ) -> Result<Versioned<Arc<Job>>, Error> {
        self.amend(target, |job| decide(job, self.now()).map(Decision::Write)).await
    }
}

/// The job with the answer to its question. Without one the agent decides.
fn answered(job: Job, text: &str, now: Timestamp, who: &Principal) -> Result<Job, Refusal> {
    if !matches!(job.stage(), Stage::Blocked { on: BlockedOn::Question(_) }) {
        return Err(Refusal::NoQuestion);
    }
    let answer = match cut(text) {
        text if text.trim().is_empty() => "no answer was given; decide yourself".to_owned(),
        text => text,
    };
    job.with_answer(&answer).apply(StageEvent::Unblocked, now, who.actor())
}

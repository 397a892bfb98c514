//! How factories answer offers. A factory that leaves offers unanswered, or declines them, gets no offers for a moment;
//! if that repeats, an alert informs the operator (row 33).

use std::time::Duration;

use domain::{FactoryId, JobId, OfferEnd, Refusal, Stage};
use protocol::{DeclineReason, DeclineRequest, StageResponse};
use tracing::{info, warn};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::state::FleetState;
use crate::state::offer_answers::{MissedOffer, Streak};
use crate::submit::sanitize::cut;

/// After this many unanswered offers in a row the stream itself may be broken: it is closed, and the factory
/// reconnects.
const RESET_EVERY: u32 = 2;

impl Coordinator {
    /// A factory declines an offer: the job is offered to another factory, and no attempt is counted.
    pub async fn decline(&self, who: &Principal, request: &DeclineRequest) -> Result<StageResponse, Error> {
        let factory = who.factory()?.clone();
        let job = self.workable(who, request.job_id).await?;
        self.process(&factory, request.instance)?;
        let known = self.factory(&factory)?;
        if known.value.instance != request.instance {
            return Err(Refusal::NotHolder { factory }.into());
        }
        let offer = job.value.dispatch().filter(|offer| offer.seq == request.dispatch_seq && offer.target == factory);
        if offer.is_none() {
            let current = job.value.dispatch().filter(|offer| offer.target == factory).map(|offer| offer.seq);
            return Err(Refusal::SupersededDispatch { shown: request.dispatch_seq, current }.into());
        }
        let reason = match &request.message {
            Some(message) => format!("{}: {}", request.reason.text(), cut(message)),
            None => request.reason.text().to_owned(),
        };
        info!(job.id = %request.job_id, factory.id = %factory, "Factory `{factory}` declined job {}: it {reason}", job.value.label());
        self.note_decline(&factory, request.reason, &reason);
        self.end_offer(request, &job.value, reason).await?;
        let job = self.look_up(request.job_id).await?;
        Ok(StageResponse { stage: job.value.stage().name(), lease_epoch: job.value.epoch() })
    }

    async fn end_offer(&self, request: &DeclineRequest, job: &domain::Job, reason: String) -> Result<(), Error> {
        match job.stage() {
            Stage::Queued { .. } => {
                self.withdraw_offer(request.job_id, request.dispatch_seq, OfferEnd::Declined(reason)).await
            }
            _ => self.take_errand_back(request.job_id, request.dispatch_seq, format!("declined: it {reason}")).await,
        }
    }

    fn note_decline(&self, factory: &FactoryId, reason: DeclineReason, problem: &str) {
        let (how, problem) = match reason {
            DeclineReason::Fault => (MissedOffer::Fault, format!("declines offers: it {problem}")),
            DeclineReason::Busy | DeclineReason::Stopping => (MissedOffer::Passing, problem.to_owned()),
        };
        self.note_missed_offer(factory, how, problem);
    }

    /// Counts an unanswered offer of a connected factory. After several its stream is closed, so that it reconnects.
    pub(crate) fn note_unanswered(&self, factory: &FactoryId, job: JobId) {
        let streak = self.note_missed_offer(factory, MissedOffer::Unanswered, "leaves offers unanswered".to_owned());
        warn!(job.id = %job, factory.id = %factory, "Factory `{factory}` is connected and did not answer the offer of job {}", self.label(job));
        if streak.count.is_multiple_of(RESET_EVERY) {
            warn!(factory.id = %factory, "Closing the inbox of factory `{factory}`: it left {} offers unanswered", streak.count);
            self.inboxes.close(factory);
        }
    }

    fn note_missed_offer(&self, factory: &FactoryId, how: MissedOffer, problem: String) -> Streak {
        let streak = {
            let mut state = self.state.lock();
            let streak = state.miss_offer(factory, how, problem, self.now(), self.ports.clock.monotonic());
            self.show_to_scheduler(&mut state, factory);
            streak
        };
        self.timer.notify_one();
        streak
    }

    /// Records that the factory accepted an offer.
    pub(crate) fn note_accepted(&self, factory: &FactoryId) {
        let mut state = self.state.lock();
        if state.end_streak(factory) {
            self.show_to_scheduler(&mut state, factory);
        }
    }

    /// Resumes offers to factories whose pause is over.
    pub(crate) fn resume_offers(&self) {
        let mut state = self.state.lock();
        let resumed = state.resume_offers(self.ports.clock.monotonic());
        for factory in &resumed {
            self.show_to_scheduler(&mut state, factory);
        }
        if !resumed.is_empty() {
            self.work.notify_one();
        }
    }

    /// The time until a factory may get offers again.
    pub(crate) fn until_offers_resume(&self, state: &FleetState) -> Option<Duration> {
        let next = state.next_offer_resume()?;
        Some(next.saturating_sub(self.ports.clock.monotonic()))
    }
}

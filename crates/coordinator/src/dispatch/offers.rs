//! How factories answer offers. A factory that leaves offers unanswered, or declines them, gets no offers for a moment;
//! if that repeats, an alert informs the operator (row 33).

use std::time::Duration;

use domain::{FactoryId, JobId, OfferEnd, Refusal, Stage, Timestamp};
use foldhash::HashMap;
use protocol::{DeclineReason, DeclineRequest, StageResponse};
use scheduler::OfferPause;
use tracing::{info, warn};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::state::FleetState;
use crate::submit::sanitize::cut;

/// The pause after the second missed offer in a row; each further one doubles it. A single miss proves nothing: a
/// broker may lose a message [I4].
const PAUSE_FIRST: Duration = Duration::from_secs(1);

/// The longest pause: the factory may have recovered, and only an offer shows it.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// This many missed offers in a row raise an alert.
const ALERT_AFTER: u32 = 3;

/// After this many unanswered offers in a row the stream itself may be broken: it is closed, and the factory
/// reconnects.
const RESET_EVERY: u32 = 2;

/// Factories that did not accept their last offers. In memory only.
#[derive(Debug, Default)]
pub(crate) struct OfferAnswers {
    by_factory: HashMap<FactoryId, Streak>,
}

/// Offers in a row that a factory did not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Streak {
    pub(crate) count: u32,
    /// Offers in a row that it declined for a temporary reason: no fault, but each makes the pause longer.
    passing: u32,
    pub(crate) since: Timestamp,
    /// The problem, as a phrase that follows the factory's name.
    pub(crate) problem: String,
    /// When the last one was counted, on the monotonic clock.
    counted_at: Duration,
    /// On the monotonic clock; none when it may get offers.
    paused_until: Option<Duration>,
}

/// How a factory missed an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MissedOffer {
    /// It did not answer. Concurrent offers expire together, and count once.
    Unanswered,
    /// It declined because of a fault.
    Fault,
    /// It declined for a temporary reason: no fault.
    Passing,
}

impl OfferAnswers {
    /// Counts an offer that a factory did not accept; returns its streak.
    fn missed(
        &mut self,
        factory: &FactoryId,
        how: MissedOffer,
        problem: String,
        now: Timestamp,
        at: Duration,
    ) -> Streak {
        let fresh =
            || Streak { count: 0, passing: 0, since: now, problem: String::new(), counted_at: at, paused_until: None };
        let streak = self.by_factory.entry(factory.clone()).or_insert_with(fresh);
        streak.problem = problem;
        let is_counted = match how {
            MissedOffer::Unanswered => streak.count == 0 || at >= streak.counted_at + PAUSE_FIRST,
            MissedOffer::Fault => true,
            MissedOffer::Passing => false,
        };
        if is_counted {
            streak.count += 1;
            streak.counted_at = at;
        }
        // Concurrent offers are declined together, and count once.
        if how == MissedOffer::Passing && streak.paused_until.is_none_or(|until| until <= at) {
            streak.passing = streak.passing.saturating_add(1);
        }
        let pause = match how {
            MissedOffer::Passing => pause_after(streak.passing.saturating_add(1)),
            MissedOffer::Unanswered | MissedOffer::Fault => pause_after(streak.count),
        };
        let until = (!pause.is_zero()).then(|| at + pause);
        streak.paused_until = streak.paused_until.max(until);
        streak.clone()
    }

    /// Clears the streak: the factory accepted work, or is a new process.
    pub(crate) fn forget(&mut self, factory: &FactoryId) -> bool {
        self.by_factory.remove(factory).is_some()
    }

    /// Why a factory gets no offers now.
    pub(crate) fn pause(&self, factory: &FactoryId) -> Option<OfferPause> {
        let streak = self.by_factory.get(factory).filter(|streak| streak.paused_until.is_some())?;
        Some(OfferPause { problem: streak.problem.clone(), is_busy: streak.count == 0 })
    }

    /// Ends the pauses that are over; returns the factories that may get offers again.
    fn resumed(&mut self, at: Duration) -> Vec<FactoryId> {
        let is_over = |streak: &Streak| streak.paused_until.is_some_and(|until| until <= at);
        let over = self.by_factory.iter_mut().filter(|(_, streak)| is_over(streak));
        over.map(|(factory, streak)| {
            streak.paused_until = None;
            factory.clone()
        })
        .collect()
    }

    /// The earliest end of a pause.
    pub(crate) fn next_resume(&self) -> Option<Duration> {
        self.by_factory.values().filter_map(|streak| streak.paused_until).min()
    }

    /// Streaks that raise an alert.
    pub(crate) fn alarming(&self) -> impl Iterator<Item = (&FactoryId, &Streak)> {
        self.by_factory.iter().filter(|(_, streak)| streak.count >= ALERT_AFTER)
    }
}

/// The length of the pause after this many missed offers in a row.
fn pause_after(missed: u32) -> Duration {
    match missed {
        0 | 1 => Duration::ZERO,
        _ => PAUSE_FIRST.saturating_mul(1 << (missed - 2).min(16)).min(PAUSE_MAX),
    }
}

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
            let streak = state.offer_answers.missed(factory, how, problem, self.now(), self.ports.clock.monotonic());
            self.show_to_scheduler(&mut state, factory);
            streak
        };
        self.timer.notify_one();
        streak
    }

    /// Records that the factory accepted an offer.
    pub(crate) fn note_accepted(&self, factory: &FactoryId) {
        let mut state = self.state.lock();
        if state.offer_answers.forget(factory) {
            self.show_to_scheduler(&mut state, factory);
        }
    }

    /// Resumes offers to factories whose pause is over.
    pub(crate) fn resume_offers(&self) {
        let mut state = self.state.lock();
        let resumed = state.offer_answers.resumed(self.ports.clock.monotonic());
        for factory in &resumed {
            self.show_to_scheduler(&mut state, factory);
        }
        if !resumed.is_empty() {
            self.work.notify_one();
        }
    }

    /// The time until a factory may get offers again.
    pub(crate) fn until_offers_resume(&self, state: &FleetState) -> Option<Duration> {
        let next = state.offer_answers.next_resume()?;
        Some(next.saturating_sub(self.ports.clock.monotonic()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(answers: &mut OfferAnswers, how: MissedOffer, at: Duration) -> Streak {
        answers.missed(&mac(), how, "leaves offers unanswered".to_owned(), Timestamp::default(), at)
    }

    fn mac() -> FactoryId {
        "mac".parse().unwrap()
    }

    #[test]
    fn each_missed_offer_in_a_row_doubles_the_pause() {
        let mut answers = OfferAnswers::default();
        let mut at = Duration::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            at += Duration::from_secs(15);
            let until = missed(&mut answers, MissedOffer::Unanswered, at).paused_until;
            pauses.push(until.map(|until| (until - at).as_secs()));
            at = until.unwrap_or(at);
            answers.resumed(at);
        }

        assert_eq!(pauses, [None, Some(1), Some(2), Some(4), Some(8), Some(16), Some(30), Some(30)]);
        assert_eq!(answers.alarming().count(), 1);
    }

    #[test]
    fn offers_that_expire_together_count_once() {
        let mut answers = OfferAnswers::default();
        let mut counts =
            |how| -> Vec<u32> { (0..3).map(|_| missed(&mut answers, how, Duration::ZERO).count).collect() };

        assert_eq!(counts(MissedOffer::Unanswered), [1, 1, 1]);
        assert_eq!(counts(MissedOffer::Passing), [1, 1, 1]);
        assert_eq!(counts(MissedOffer::Fault), [2, 3, 4]);
    }

    #[test]
    fn repeated_temporary_declines_lengthen_the_pause() {
        let mut answers = OfferAnswers::default();
        let mut at = Duration::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..7 {
            missed(&mut answers, MissedOffer::Passing, at);
            let until = missed(&mut answers, MissedOffer::Passing, at).paused_until.unwrap();
            pauses.push((until - at).as_secs());
            at = until;
            answers.resumed(at);
        }

        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(answers.alarming().count(), 0, "busy is no fault");
        answers.forget(&mac());
        assert_eq!(missed(&mut answers, MissedOffer::Passing, at).paused_until, Some(at + PAUSE_FIRST));
    }

    #[test]
    fn an_accepted_offer_ends_the_streak() {
        let mut answers = OfferAnswers::default();
        missed(&mut answers, MissedOffer::Passing, Duration::ZERO);
        assert_eq!(answers.next_resume(), Some(PAUSE_FIRST));

        assert!(answers.forget(&mac()));

        assert_eq!((answers.pause(&mac()), answers.next_resume()), (None, None));
    }
}

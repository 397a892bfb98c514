//! How each factory answered its last offers.

use std::time::Duration;

use domain::{FactoryId, Timestamp};
use foldhash::HashMap;
use scheduler::OfferPause;

use super::FleetState;

/// The pause after the second missed offer in a row; each further one doubles it. A single miss proves nothing: a
/// broker may lose a message [I4].
const PAUSE_FIRST: Duration = Duration::from_secs(1);

/// The longest pause: the factory may have recovered, and only an offer shows it.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// This many missed offers in a row raise an alert.
const ALERT_AFTER: u32 = 3;

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
pub(crate) enum MissedOffer {
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
    pub(super) fn forget(&mut self, factory: &FactoryId) -> bool {
        self.by_factory.remove(factory).is_some()
    }

    /// Why a factory gets no offers now.
    fn pause(&self, factory: &FactoryId) -> Option<OfferPause> {
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
    fn next_resume(&self) -> Option<Duration> {
        self.by_factory.values().filter_map(|streak| streak.paused_until).min()
    }

    /// Streaks that raise an alert.
    fn alarming(&self) -> impl Iterator<Item = (&FactoryId, &Streak)> {
        self.by_factory.iter().filter(|(_, streak)| streak.count >= ALERT_AFTER)
    }
}

/// The length of the pause after this many missed offers in a row.
fn pause_after(missed: u32) -> Duration {
    match missed {
        0 | 1 => Duration::ZERO,
        _ => domain::doubled(PAUSE_FIRST, missed - 2, PAUSE_MAX),
    }
}

impl FleetState {
    /// Counts an offer that a factory did not accept; returns its streak.
    pub(crate) fn miss_offer(
        &mut self,
        factory: &FactoryId,
        how: MissedOffer,
        problem: String,
        now: Timestamp,
        at: Duration,
    ) -> Streak {
        self.offer_answers.missed(factory, how, problem, now, at)
    }

    /// Clears the streak of a factory; returns whether there was one.
    pub(crate) fn end_streak(&mut self, factory: &FactoryId) -> bool {
        self.offer_answers.forget(factory)
    }

    /// Why a factory gets no offers now.
    pub(crate) fn offer_pause(&self, factory: &FactoryId) -> Option<OfferPause> {
        self.offer_answers.pause(factory)
    }

    /// Ends the pauses that are over; returns the factories that may get offers again.
    pub(crate) fn resume_offers(&mut self, at: Duration) -> Vec<FactoryId> {
        self.offer_answers.resumed(at)
    }

    /// The earliest end of a pause.
    pub(crate) fn next_offer_resume(&self) -> Option<Duration> {
        self.offer_answers.next_resume()
    }

    /// Streaks that raise an alert.
    pub(crate) fn alarming_streaks(&self) -> impl Iterator<Item = (&FactoryId, &Streak)> {
        self.offer_answers.alarming()
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

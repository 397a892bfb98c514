//! When a polling factory polls next: pure rules, so that a test covers an hour in no time.
//!
//! - A claim that finds nothing doubles the pause before the next, from the configured one up to four times that.
//! - A claim that finds work is followed by the next at once while seats are free, and when one comes free.
//! - Behind the gate the factory polls the queue's version instead, at the configured pause. It claims when the version
//!   has changed and jobs wait; when a seat became free and jobs wait; and, because some changes do not show in a
//!   product's version, at every eighth poll while jobs wait.
//! - Every pause is jittered by a fifth, so that factories that were started together do not poll together.

use std::time::Duration;

use protocol::QueueVersion;

/// How often the pause doubles while there is no work.
const DOUBLINGS_MAX: u32 = 2;

/// Polls of an unchanged queue with waiting jobs before a claim is made all the same.
const LOOKS_MAX: u32 = 8;

/// The jittered part of a pause.
const JITTER: f64 = 0.4;

/// Factories that switch to polling start within this time.
const FIRST_PAUSE_MAX: Duration = Duration::from_secs(1);

/// How a factory receives work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollMode {
    /// It waits for offers.
    Never,
    /// It claims.
    Poll,
    /// It polls the queue's version first.
    Gate,
}

/// The outcome of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollResult {
    /// Work.
    Work,
    /// Nothing, or no answer.
    Nothing,
    /// The gate is closed: no claim was made.
    Closed,
}

/// The reason for a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollTrigger {
    /// The pause is over.
    ByTime,
    /// A seat became free.
    BySeat,
}

/// The state of a factory between two polls.
#[derive(Debug)]
pub struct PollBackoff {
    every: Duration,
    /// Claims in a row that found nothing.
    fruitless: u32,
    tag: Option<String>,
    waiting: u64,
    looks: u32,
}

impl PollBackoff {
    /// A factory that has not polled yet.
    pub fn new(every: Duration) -> Self {
        Self { every, fruitless: 0, tag: None, waiting: 0, looks: 0 }
    }

    /// The pause before the first poll.
    pub fn first(&self, chance: f64) -> Duration {
        self.every.min(FIRST_PAUSE_MAX).mul_f64(chance)
    }

    /// The queue's version at the last poll.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Whether to claim, given the queue's version.
    pub fn opens(&mut self, news: QueueVersion, woken: PollTrigger) -> bool {
        let has_moved = match news {
            QueueVersion::Moved { tag, products } => {
                self.tag = Some(tag);
                self.waiting = products.iter().map(|product| product.pending_count).sum();
                true
            }
            QueueVersion::Same => false,
        };
        self.looks = if has_moved || self.waiting == 0 { 0 } else { self.looks + 1 };
        let is_due = self.looks >= LOOKS_MAX;
        if is_due {
            self.looks = 0;
        }
        self.waiting > 0 && (has_moved || is_due || woken == PollTrigger::BySeat)
    }

    /// The pause after a poll.
    pub fn after(&mut self, found: PollResult, chance: f64) -> Duration {
        self.fruitless = match found {
            PollResult::Work | PollResult::Closed => 0,
            PollResult::Nothing => self.fruitless + 1,
        };
        let jitter = 1.0 - JITTER / 2.0 + JITTER * chance;
        match found {
            PollResult::Work => Duration::ZERO,
            PollResult::Closed => self.every.mul_f64(jitter),
            PollResult::Nothing => {
                let doublings = (self.fruitless - 1).min(DOUBLINGS_MAX);
                (self.every * 2_u32.pow(doublings)).mul_f64(jitter)
            }
        }
    }

    /// Whether the last poll found work: then a free seat is worth a claim.
    pub fn is_hungry(&self) -> bool {
        self.fruitless == 0
    }
}

#[cfg(test)]
mod tests {
    use clock::SeededEntropy;
    use domain::{Entropy, ProductId};
    use protocol::QueueState;

    use super::*;

    const EVERY: Duration = Duration::from_secs(15);
    const HOUR: Duration = Duration::from_secs(3_600);

    fn moved(version: u64, pending_count: u64) -> QueueVersion {
        let products = vec![QueueState { product_id: ProductId::default_product(), version, pending_count }];
        QueueVersion::Moved { tag: version.to_string(), products }
    }

    /// The requests of an idle fleet in an hour: claims, and version polls.
    fn asked_in_an_hour(factories: u64, asking: PollMode) -> (u32, u32) {
        let (mut claims, mut looks) = (0, 0);
        for seed in 0..factories {
            let chance = SeededEntropy::new(seed);
            let chance = || (&chance as &dyn Entropy).fraction();
            let mut pace = PollBackoff::new(EVERY);
            let mut now = pace.first(chance());
            while now < HOUR {
                let is_open = match asking {
                    PollMode::Never => return (0, 0),
                    PollMode::Poll => true,
                    PollMode::Gate => {
                        looks += 1;
                        let news = if pace.tag().is_none() { moved(1, 0) } else { QueueVersion::Same };
                        pace.opens(news, PollTrigger::ByTime)
                    }
                };
                claims += u32::from(is_open);
                now += pace.after(if is_open { PollResult::Nothing } else { PollResult::Closed }, chance());
            }
        }
        (claims, looks)
    }

    // [D1] [P4]
    #[test]
    fn idle_factories_behind_the_gate_claim_a_fiftieth_of_what_they_poll_at_most() {
        let (polled, _) = asked_in_an_hour(100, PollMode::Poll);
        let (gated, looks) = asked_in_an_hour(100, PollMode::Gate);
        let pushed = asked_in_an_hour(100, PollMode::Never);

        println!("100 factories in an hour: {polled} claims polled, {gated} gated, {looks} looks");
        assert!((5_500..7_500).contains(&polled), "{polled} claims: about one a minute each");
        assert!((22_000..26_000).contains(&looks), "{looks} looks: about four a minute each");
        assert!(gated * 50 <= polled, "{gated} of {polled}");
        assert_eq!(pushed, (0, 0));
    }

    // [D1]
    #[test]
    fn a_claim_that_finds_nothing_doubles_the_pause_up_to_four_times() {
        let mut pace = PollBackoff::new(EVERY);

        let pauses: Vec<u64> = (0..5).map(|_| pace.after(PollResult::Nothing, 0.5).as_secs()).collect();

        assert_eq!(pauses, [15, 30, 60, 60, 60]);
        assert_eq!(pace.after(PollResult::Work, 0.5), Duration::ZERO);
        assert_eq!(pace.after(PollResult::Nothing, 0.5), EVERY);
    }

    // [D1]
    #[test]
    fn every_pause_is_jittered_by_a_fifth() {
        let pause = |chance| PollBackoff::new(EVERY).after(PollResult::Closed, chance);

        assert_eq!((pause(0.0), pause(1.0)), (Duration::from_secs(12), Duration::from_secs(18)));
    }

    #[test]
    fn the_gate_opens_when_something_waits_and_the_version_moved_or_a_seat_came_free() {
        let mut pace = PollBackoff::new(EVERY);

        assert!(!pace.opens(moved(1, 0), PollTrigger::ByTime));
        assert!(!pace.opens(QueueVersion::Same, PollTrigger::BySeat));
        assert!(pace.opens(moved(2, 1), PollTrigger::ByTime));
        assert!(!pace.opens(QueueVersion::Same, PollTrigger::ByTime));
        assert!(pace.opens(QueueVersion::Same, PollTrigger::BySeat));
    }

    #[test]
    fn what_waits_in_an_unmoved_queue_is_asked_for_at_every_eighth_look() {
        let mut pace = PollBackoff::new(EVERY);
        pace.opens(moved(1, 1), PollTrigger::ByTime);

        let opened = (0..80).filter(|_| pace.opens(QueueVersion::Same, PollTrigger::ByTime)).count();

        assert_eq!(opened, 10);
    }

    #[test]
    fn a_moving_version_without_work_causes_few_claims() {
        let mut pace = PollBackoff::new(EVERY);
        let mut now = Duration::ZERO;
        let mut claims = 0;

        for version in 1.. {
            if now > HOUR {
                break;
            }
            let found = if pace.opens(moved(version, 7), PollTrigger::ByTime) {
                PollResult::Nothing
            } else {
                PollResult::Closed
            };
            claims += u32::from(found == PollResult::Nothing);
            now += pace.after(found, 0.5);
        }

        assert!(claims <= 62, "{claims} claims in an hour that found nothing");
    }
}

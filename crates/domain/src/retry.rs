//! Retry policy: what follows a failed attempt, a lost lease or an expired offer. Only the coordinator decides.

use std::time::Duration;

use crate::reason::{FailureReason, Retryability};
use crate::spec::Retry;
use crate::stage::Stage;
use crate::time::Timestamp;

/// The fleet's default policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts, including the first.
    pub attempts_max: u32,
    /// The first backoff; it doubles with each retry.
    pub backoff: Duration,
    /// Maximum backoff.
    pub backoff_max: Duration,
    /// Maximum number of lost leases. A job beyond it is assumed to crash factories.
    pub lost_leases_max: u32,
    /// Maximum number of expired offers before a job is undeliverable.
    pub unaccepted_max: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts_max: 3,
            backoff: Duration::from_secs(30),
            backoff_max: Duration::from_hours(1),
            lost_leases_max: 5,
            unaccepted_max: 20,
        }
    }
}

/// The decision after a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryDecision {
    /// Retry, not before the given time.
    Retry {
        /// The end of the backoff.
        not_before: Option<Timestamp>,
    },
    /// The job failed; no retry.
    Fail {
        /// The reason.
        reason: FailureReason,
    },
    /// The job is dead-lettered.
    DeadLetter {
        /// The reason.
        reason: FailureReason,
    },
}

impl RetryDecision {
    /// The resulting stage.
    pub fn stage(&self) -> Stage {
        match *self {
            Self::Retry { not_before } => Stage::waiting(not_before),
            Self::Fail { reason } => Stage::Failed { reason },
            Self::DeadLetter { reason } => Stage::DeadLetter { reason },
        }
    }
}

impl RetryPolicy {
    /// Decides after a failed attempt that `attempts` failures preceded. `jitter` in [0, 1) spreads the retries of many
    /// jobs.
    pub fn after_failure(
        &self,
        asked: &Retry,
        attempts: u32,
        (reason, again): (FailureReason, Retryability),
        now: Timestamp,
        jitter: f64,
    ) -> RetryDecision {
        if !reason.is_retryable() || again == Retryability::Pointless {
            return RetryDecision::Fail { reason };
        }
        if attempts + 1 >= asked.max.unwrap_or(self.attempts_max) {
            return RetryDecision::DeadLetter { reason: FailureReason::RetriesExhausted };
        }
        let first = asked.backoff_ms.map_or(self.backoff, Duration::from_millis);
        let doubled = doubled(first, attempts, self.backoff_max);
        // Jitter adds up to a fifth and never shortens the backoff.
        let pause = doubled.mul_f64(1.0 + 0.2 * jitter);
        RetryDecision::Retry { not_before: Some(now.after(pause)) }
    }

    /// Backoff after a release that `releases` releases preceded. The first two are free, because a shutdown releases
    /// too. A factory that accepts and releases in a loop must not fill the log.
    pub fn after_release(&self, releases: u32, now: Timestamp) -> Option<Timestamp> {
        const FIRST: Duration = Duration::from_secs(1);
        const LONGEST: Duration = Duration::from_secs(60);
        let doublings = releases.checked_sub(2)?;
        Some(now.after(doubled(FIRST, doublings, LONGEST)))
    }

    /// Decides after a lost lease that `lost` lost leases preceded.
    pub fn after_lost_lease(&self, lost: u32) -> RetryDecision {
        if lost + 1 >= self.lost_leases_max {
            return RetryDecision::DeadLetter { reason: FailureReason::RetriesExhausted };
        }
        RetryDecision::Retry { not_before: None }
    }

    /// Decides after an expired offer that `unaccepted` expired offers preceded.
    pub fn after_expired_dispatch(&self, unaccepted: u32) -> RetryDecision {
        if unaccepted + 1 >= self.unaccepted_max {
            return RetryDecision::DeadLetter { reason: FailureReason::Undeliverable };
        }
        RetryDecision::Retry { not_before: None }
    }
}

/// A pause that is doubled this many times, up to a maximum.
pub fn doubled(first: Duration, times: u32, max: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn failed(attempts: u32, reason: FailureReason, jitter: f64) -> RetryDecision {
        RetryPolicy::default().after_failure(
            &Retry::default(),
            attempts,
            (reason, Retryability::Worthwhile),
            NOW,
            jitter,
        )
    }

    // [T7]
    #[test]
    fn backoff_doubles_and_never_ends_early() {
        let pause = |attempts, jitter| match failed(attempts, FailureReason::Crash, jitter) {
            RetryDecision::Retry { not_before: Some(at) } => at.since(NOW).as_millis(),
            other => panic!("expected a retry, got {other:?}"),
        };

        assert_eq!((pause(0, 0.0), pause(1, 0.0)), (30_000, 60_000));
        assert_eq!(pause(0, 0.5), 33_000);
    }

    #[test]
    fn repeated_releases_increase_the_backoff() {
        let pause = |releases| RetryPolicy::default().after_release(releases, NOW).map(|at| at.since(NOW).as_secs());

        let pauses: Vec<_> = [0, 1, 2, 3, 7, 8, 500].map(pause).to_vec();

        assert_eq!(pauses, [None, None, Some(1), Some(2), Some(32), Some(60), Some(60)]);
    }

    #[test]
    fn a_job_is_dead_lettered_after_its_last_attempt() {
        assert_eq!(
            failed(2, FailureReason::Timeout, 0.0),
            RetryDecision::DeadLetter { reason: FailureReason::RetriesExhausted }
        );
    }

    #[test]
    fn a_reached_limit_is_not_retried() {
        assert_eq!(
            failed(0, FailureReason::BudgetExceeded, 0.0),
            RetryDecision::Fail { reason: FailureReason::BudgetExceeded }
        );
    }

    // [J5]
    #[test]
    fn a_pointless_retry_fails_at_once() {
        let failure = (FailureReason::EngineError, Retryability::Pointless);

        let verdict = RetryPolicy::default().after_failure(&Retry::default(), 0, failure, NOW, 0.0);

        assert_eq!(verdict, RetryDecision::Fail { reason: FailureReason::EngineError });
    }

    #[test]
    fn a_manifest_may_override_the_policy() {
        let asked = Retry { max: Some(1), backoff_ms: Some(10) };

        let failure = (FailureReason::Crash, Retryability::Worthwhile);
        let verdict = RetryPolicy::default().after_failure(&asked, 0, failure, NOW, 0.0);

        assert_eq!(verdict, RetryDecision::DeadLetter { reason: FailureReason::RetriesExhausted });
    }
}

//! An attempt that failed, and when the next one begins.

use std::time::Duration;

use domain::{EventKind, JobEvent, Timestamp};
use protocol::JobView;

use crate::config::HumanDuration;

/// An attempt that failed, and when the next one begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Backoff<'t> {
    /// How many attempts have failed.
    pub(crate) attempts: u32,
    /// Why the last one did.
    pub(crate) message: Option<&'t str>,
    /// When the next one begins.
    pub(crate) until: Timestamp,
}

impl<'t> Backoff<'t> {
    /// Of a job that waits for its next attempt now.
    pub(crate) fn of_job(job: &'t JobView, now: Timestamp) -> Option<Self> {
        let until = job.not_before.filter(|at| *at > now && job.attempts > 0)?;
        Some(Self { attempts: job.attempts, message: job.message.as_deref(), until })
    }

    /// From an event.
    pub(crate) fn of_event(event: &'t JobEvent) -> Option<Self> {
        let data = Some(&event.data).filter(|_| event.kind == EventKind::AttemptFailed)?;
        Some(Self {
            attempts: data.get("attempts")?.as_u64()?.try_into().ok()?,
            message: data.get("message").and_then(|message| message.as_str()),
            until: serde_json::from_value(data.get("notBefore")?.clone()).ok()?,
        })
    }

    /// What happened, and the time from `now` to the retry.
    pub(crate) fn sentence(&self, place: &str, now: Timestamp) -> String {
        let message = self.message.map_or_else(String::new, |message| format!(": {message}"));
        format!("attempt {} failed{place}{message}; next try in {}", self.attempts, self.left(now))
    }

    /// How long it takes until the next attempt: to the second, rounded up.
    pub(crate) fn left(&self, now: Timestamp) -> HumanDuration {
        let left = self.until.since(now).as_millis().div_ceil(1_000);
        HumanDuration(Duration::from_secs(u64::try_from(left).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_is_never_too_short() {
        let at = |millis: i64| Timestamp::from_millis(1_769_860_800_000 + millis);
        let backoff = Backoff { attempts: 2, message: Some("tests fail"), until: at(89_200) };

        let said = backoff.sentence(" on `mac-1`", at(0));

        assert_eq!(said, "attempt 2 failed on `mac-1`: tests fail; next try in 1m30s");
    }
}

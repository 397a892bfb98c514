//! The coordinator's settings, and how contradictions between them are resolved.

use std::time::Duration;

use domain::{ArtifactLimits, RetryPolicy};
use scheduler::Weights;

use crate::work::quota_windows::QuotaWindowPolicy;

/// A sweep reads every open job; more frequent sweeps would saturate a busy coordinator.
const SWEEP_EVERY_MIN: Duration = Duration::from_millis(100);

/// The coordinator's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a lease lasts without renewal.
    pub lease_ttl: Duration,
    /// How often a factory renews its leases and sends a heartbeat.
    pub renew_every: Duration,
    /// How long a factory may be silent before it counts as stale.
    pub stale_after: Duration,
    /// How long a factory has to accept an offer.
    pub accept_within: Duration,
    /// How long a factory has for a promotion or a merge.
    pub errand_within: Duration,
    /// How often the sweep compares memory with the store while there is open work.
    pub sweep_every: Duration,
    /// How often an open pull request is polled when the forge sends no webhook.
    pub look_every: Duration,
    /// Rework rounds that a pull request may start before an operator has to act.
    pub feedback_rounds_max: u32,
    /// Rework rounds that merge conflicts may start before an operator has to act; 0 starts none.
    pub conflict_rounds_max: u32,
    /// How long a job waits for a seat before it raises an alert.
    pub starving_after: Duration,
    /// How long a review or a question waits before the first reminder; each further one takes twice as long.
    pub remind_after: Duration,
    /// How long a question waits before its job fails; absent: until it is answered.
    pub question_expires_after: Option<Duration>,
    /// How long a rotated token keeps working.
    pub token_overlap: Duration,
    /// How long a factory's token lives before it has to be rotated; absent: it never expires.
    pub factory_token_ttl: Option<Duration>,
    /// The retry policy where a manifest sets none.
    pub retry: RetryPolicy,
    /// How long credentials with an exhausted quota pause.
    pub windows: QuotaWindowPolicy,
    /// The weights of the placement score.
    pub weights: Weights,
    /// Whether critical jobs may preempt others, until an administrator sets the flag.
    pub preemption: bool,
    /// How long a preempted run has to save its work and to release its seat.
    pub preemption_grace: Duration,
    /// A factory with less free disk space gets no new work.
    pub disk_free_min_bytes: u64,
    /// Whether the ceilings of budgets are enforced, unless the flags say otherwise.
    pub budgets: bool,
    /// Whether claims are compared with push mode in the modes `poll` and `gate` too, and a fleet starts in `shadow`.
    pub shadow: bool,
    /// How large artifacts may be.
    pub artifacts: ArtifactLimits,
    /// How long the artifacts of a finished job are kept.
    pub artifact_retention: Duration,
    /// How long an upload may take: younger bytes without a pointer are left alone.
    pub artifact_upload_max: Duration,
    /// How long a signed URL of an object store works; absent: the coordinator passes the bytes on.
    pub artifact_url_ttl: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease_ttl: Duration::from_secs(90),
            renew_every: Duration::from_secs(30),
            stale_after: Duration::from_secs(90),
            accept_within: Duration::from_secs(15),
            errand_within: Duration::from_secs(120),
            sweep_every: Duration::from_mins(1),
            look_every: Duration::from_mins(2),
            feedback_rounds_max: 3,
            conflict_rounds_max: 1,
            starving_after: Duration::from_mins(10),
            remind_after: Duration::from_hours(4),
            question_expires_after: None,
            token_overlap: Duration::from_mins(10),
            factory_token_ttl: None,
            retry: RetryPolicy::default(),
            windows: QuotaWindowPolicy::default(),
            weights: Weights::default(),
            preemption: false,
            preemption_grace: Duration::from_mins(1),
            disk_free_min_bytes: 1024 * 1024 * 1024,
            budgets: false,
            shadow: false,
            artifacts: ArtifactLimits::default(),
            artifact_retention: Duration::from_hours(30 * 24),
            artifact_upload_max: Duration::from_hours(3),
            artifact_url_ttl: None,
        }
    }
}

impl Settings {
    /// Resolves contradictions, and returns a sentence about each. Two renewals must fit into a lease and into
    /// `stale_after`, or one lost packet would cost a job [T7].
    pub fn reconciled(mut self) -> (Self, Vec<String>) {
        let mut warnings = Vec::new();
        let shortest = self.lease_ttl.min(self.stale_after);
        let renew_max = shortest / 3;
        if self.renew_every > renew_max {
            let limit = if self.lease_ttl <= self.stale_after { "the lease" } else { "stale_after" };
            warnings.push(format!(
                "renew_every ({:?}) is longer than a third of {limit} ({shortest:?}); using {:.1?}",
                self.renew_every, renew_max
            ));
            self.renew_every = renew_max;
        }
        if self.sweep_every < SWEEP_EVERY_MIN {
            warnings.push(format!("sweep_every ({:?}) is too short; using {SWEEP_EVERY_MIN:?}", self.sweep_every));
            self.sweep_every = SWEEP_EVERY_MIN;
        }
        (self, warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [T7]
    #[test]
    fn a_renewal_slower_than_the_lease_is_clamped_with_a_warning() {
        let asked = Settings { renew_every: Duration::from_secs(60), ..Settings::default() };

        let (settings, warnings) = asked.reconciled();

        assert_eq!(settings.renew_every, Duration::from_secs(30));
        assert_eq!(warnings.len(), 1);
    }

    // [T7]
    #[test]
    fn the_defaults_agree_with_each_other() {
        assert!(Settings::default().reconciled().1.is_empty());
    }
}

//! One delivery, and what follows its failure.

use std::time::Duration;

use domain::{Timestamp, WebhookError, WebhookName, doubled};
use fail::fail_point;
use protocol::WebhookNotice;
use tracing::{info, warn};

use crate::coordinator::Coordinator;
use crate::maintenance::notify::notice::rendered;
use crate::maintenance::notify::{Stop, WebhookTarget};
use crate::submit::sanitize::short;

/// The pause after a failed delivery; it doubles.
pub(super) const PAUSE_FIRST: Duration = Duration::from_secs(5);

/// The longest pause, unless the receiver asks for a longer one.
const PAUSE_MAX: Duration = Duration::from_mins(10);

/// Failures in a row that raise an alert.
pub(super) const FAILURES_BEFORE_ALERT: u32 = 3;

/// What is older is not sent any more: a receiver that was away for long gets no flood of old news.
pub(super) const AGE_MAX: Duration = Duration::from_hours(24);

/// The longest shown error.
const ERROR_CHARS_MAX: usize = 300;

/// The state of a webhook since the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct WebhookHealth {
    pub(super) delivered: u64,
    pub(super) failed: u64,
    pub(super) dropped: u64,
    /// Failed deliveries in a row.
    pub(super) failures: u32,
    pub(super) failing_since: Option<Timestamp>,
    pub(super) last_delivery: Option<Timestamp>,
    pub(super) error: Option<String>,
    /// Nothing is sent before this time on the monotonic clock.
    pub(super) next_at: Duration,
}

impl Coordinator {
    /// Sends one delivery. It counts as done if the receiver takes it, or rejects it for good.
    pub(super) async fn deliver(
        &self,
        name: &WebhookName,
        target: &WebhookTarget,
        notice: &WebhookNotice,
    ) -> Result<(), Stop> {
        fail_point!("webhook::before_delivery");
        let delivered = target.receiver.deliver(&rendered(notice, target.format)).await;
        fail_point!("webhook::delivered");
        match delivered {
            Ok(()) => {
                self.note_delivered(name);
                Ok(())
            }
            Err(WebhookError::Rejected(message)) => {
                self.note_undelivered(name, &message, None);
                self.note_dropped(name);
                warn!(webhook = %name, delivery = %notice.id, "Webhook `{name}`: delivery {} is dropped: {message}", notice.id);
                Ok(())
            }
            Err(WebhookError::Retryable { message, wait }) => {
                let (until, pause) = self.note_undelivered(name, &message, wait);
                warn!(webhook = %name, delivery = %notice.id, "Webhook `{name}` was not delivered, next attempt in {pause:?}: {message}");
                Err(Stop::Paused(until))
            }
        }
    }

    fn note_delivered(&self, name: &WebhookName) {
        let now = self.now();
        let failures = self.change_health(name, |health| {
            health.delivered += 1;
            health.last_delivery = Some(now);
            (health.failing_since, health.error, health.next_at) = (None, None, Duration::ZERO);
            std::mem::take(&mut health.failures)
        });
        if failures > 0 {
            info!(webhook = %name, "Webhook `{name}` is delivered again");
        }
        if failures >= FAILURES_BEFORE_ALERT {
            self.live.note();
        }
    }

    /// Records a failed delivery. Returns when the next attempt is made.
    fn note_undelivered(&self, name: &WebhookName, message: &str, wait: Option<Duration>) -> (Duration, Duration) {
        let (now, wall) = (self.ports.clock.monotonic(), self.now());
        let (failures, pause) = self.change_health(name, |health| {
            let pause = doubled(PAUSE_FIRST, health.failures, PAUSE_MAX).max(wait.unwrap_or_default());
            health.failed += 1;
            health.failures += 1;
            health.failing_since.get_or_insert(wall);
            health.error = Some(short(message, ERROR_CHARS_MAX));
            health.next_at = now + pause;
            (health.failures, pause)
        });
        if failures == FAILURES_BEFORE_ALERT {
            self.live.note();
        }
        (now + pause, pause)
    }

    pub(super) fn note_dropped(&self, name: &WebhookName) {
        self.change_health(name, |health| health.dropped += 1);
    }

    fn change_health<T>(&self, name: &WebhookName, change: impl FnOnce(&mut WebhookHealth) -> T) -> T {
        change(self.notifier.health.lock().entry(name.clone()).or_default())
    }
}

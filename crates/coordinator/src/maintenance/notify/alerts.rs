//! Alerts: one message when an alert is raised, one when it ends, none while it lasts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::WebhookName;
use protocol::{Alert, AlertCode, WebhookAlert};
use tracing::warn;

use crate::coordinator::Coordinator;
use crate::maintenance::notify::record::{Cursor, RaisedAlert};
use crate::maintenance::notify::{Stop, WebhookTarget, everything};
use crate::submit::sanitize::short;

/// The shortest time between two computations of the alerts.
const COMPUTE_EVERY: Duration = Duration::from_secs(1);

/// A computation pauses for this many times its duration: at most a twentieth of a core is used for it.
const PAUSE_FACTOR: u32 = 20;

/// While alerts last, they are computed again after this time: some end by time alone.
const RECHECK_EVERY: Duration = Duration::from_mins(5);

/// Alerts that one webhook keeps; further ones are sent once others have ended.
const ALERTS_MAX: usize = 200;

/// The longest message of an alert.
const MESSAGE_CHARS_MAX: usize = 500;

impl Coordinator {
    /// Computes the alerts whenever something changed that may raise or end one. Idle, it costs nothing.
    pub(super) async fn watch_alerts(&self) {
        let who = everything();
        let mut changes = self.live.subscribe();
        loop {
            changes.borrow_and_update();
            if self.is_warming() {
                // Alerts that factories could resolve are unknown until they had time to reconnect: none of them ended.
                let pause = self.settings.renew_every.saturating_sub(self.uptime()) + Duration::from_millis(1);
                self.ports.clock.sleep(pause).await;
                continue;
            }
            let started = self.ports.clock.monotonic();
            let lasts = match self.alerts(&who).await {
                Ok(list) => {
                    let lasts = !list.items.is_empty();
                    self.notifier.alerts.send_replace(Some(Arc::new(list.items)));
                    lasts
                }
                Err(error) => {
                    warn!(%error, "Cannot compute the alerts for webhooks, retrying");
                    self.live.note();
                    true
                }
            };
            let took = self.ports.clock.monotonic().saturating_sub(started);
            self.ports.clock.sleep((took * PAUSE_FACTOR).max(COMPUTE_EVERY)).await;
            let recheck = async {
                match lasts {
                    true => self.ports.clock.sleep(RECHECK_EVERY).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = changes.changed() => {}
                () = recheck => {}
            }
        }
    }

    /// Tells the receiver what changed since it was last told.
    pub(super) async fn send_alerts(
        &self,
        name: &WebhookName,
        target: &WebhookTarget,
        cursor: &mut Cursor,
        alerts: &[Alert],
    ) -> Result<(), Stop> {
        let current = current_for(name, target, alerts);
        let mut record = cursor.record.clone();
        // The receiver does not know of an alert that ended before it could be told.
        record.alerts.retain(|key, raised| raised.is_told || current.contains_key(key));
        for (key, alert) in &current {
            if record.alerts.len() < ALERTS_MAX && !record.alerts.contains_key(key) {
                let alert =
                    WebhookAlert { message: short(&alert.message, MESSAGE_CHARS_MAX), ..WebhookAlert::of(alert) };
                record.alerts.insert(key.clone(), RaisedAlert { id: self.random_id(), is_told: false, alert });
            }
        }
        if record != cursor.record {
            // Before the first attempt: a repetition after a crash has the same id.
            self.keep_cursor(name, cursor, record).await?;
        }
        let ended = cursor.record.alerts.keys().filter(|key| !current.contains_key(*key));
        let ended: Vec<String> = ended.cloned().collect();
        for key in ended {
            let Some(raised) = cursor.record.alerts.get(&key) else { continue };
            self.deliver(name, target, &self.notice_of_alert(raised, true)).await?;
            let mut record = cursor.record.clone();
            record.alerts.remove(&key);
            self.keep_cursor(name, cursor, record).await?;
        }
        let untold = cursor.record.alerts.iter().filter(|(_, raised)| !raised.is_told);
        let untold: Vec<String> = untold.map(|(key, _)| key.clone()).collect();
        for key in untold {
            let Some(raised) = cursor.record.alerts.get(&key) else { continue };
            self.deliver(name, target, &self.notice_of_alert(raised, false)).await?;
            let mut record = cursor.record.clone();
            if let Some(raised) = record.alerts.get_mut(&key) {
                raised.is_told = true;
            }
            self.keep_cursor(name, cursor, record).await?;
        }
        Ok(())
    }

    pub(super) fn random_id(&self) -> String {
        let bytes: [u8; 16] = self.ports.entropy.bytes();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The alerts that a webhook sends, by their identity.
fn current_for<'a>(name: &WebhookName, target: &WebhookTarget, alerts: &'a [Alert]) -> BTreeMap<String, &'a Alert> {
    // That this webhook fails cannot be told through it.
    let is_own =
        |alert: &Alert| alert.code == AlertCode::WebhookFailing && alert.subject.as_deref() == Some(name.as_str());
    let mut current = BTreeMap::new();
    for alert in alerts.iter().filter(|alert| target.covers(alert.product_id.as_ref()) && !is_own(alert)) {
        current.entry(identity(alert)).or_insert(alert);
    }
    current
}

/// What makes an alert the same one, while its message, its count and its example change.
fn identity(alert: &Alert) -> String {
    let WebhookAlert { code, factory_id, product_id, subject, .. } = WebhookAlert::of(alert);
    // An alert about several jobs names one of them as an example. The example of an unplaceable shape stays.
    let is_example = alert.jobs.is_some() && alert.code != AlertCode::Unplaceable;
    let job = alert.job_id.filter(|_| !is_example).map(|job| job.to_string());
    let factory = factory_id.map(|factory| factory.to_string());
    let product = product_id.map(|product| product.to_string());
    [Some(code), factory, product, subject, job].map(Option::unwrap_or_default).join("/")
}

#[cfg(test)]
mod tests {
    use domain::{JobId, Timestamp};

    use super::*;

    // [D4] [T6]
    #[test]
    fn another_example_is_the_same_alert_and_another_job_is_not() {
        let of = |code, job: u8, jobs: Option<u64>| {
            let id = JobId::new(Timestamp::from_millis(1), [job; 10]);
            let alert = crate::read::alerts::alert(code, format!("{job}"), Timestamp::from_millis(1), Some(id));
            identity(&Alert { jobs, ..alert })
        };

        assert_eq!(of(AlertCode::QueueStarvation, 1, Some(2)), of(AlertCode::QueueStarvation, 2, Some(3)));
        assert_ne!(of(AlertCode::QuestionWaiting, 1, None), of(AlertCode::QuestionWaiting, 2, None));
        assert_ne!(of(AlertCode::Unplaceable, 1, Some(1)), of(AlertCode::Unplaceable, 2, Some(1)));
    }
}

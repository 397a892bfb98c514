//! Outgoing webhooks: the stages of jobs, and alerts that are raised and cleared, for configured receivers [T6][D4].
//!
//! The event log is the queue of jobs: each webhook keeps its position in it, so that what was not delivered before a
//! restart is delivered after it. Alerts are compared with what the receiver was told: one message when an alert is
//! raised, one when it ends. A delivery keeps its id when it is repeated.

mod alerts;
mod delivery;
mod jobs;
mod notice;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::{
    ProductId, StageName, StoreError, Timestamp, TokenId, TokenScope, WebhookFormat, WebhookName, WebhookReceiver,
    WebhookTopic,
};
use futures_util::future::join_all;
use parking_lot::Mutex;
use protocol::{Alert, AlertCode, WebhookList, WebhookTestResponse, WebhookView};
use tokio::sync::{Notify, watch};
use tracing::warn;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::maintenance::notify::delivery::{FAILURES_BEFORE_ALERT, PAUSE_FIRST, WebhookHealth};
use crate::maintenance::notify::record::Cursor;
use crate::read::alerts::{about, alert};

/// The shortest time between two reads of the log for one webhook.
const READ_EVERY: Duration = Duration::from_millis(250);

/// A configured webhook.
#[derive(Clone)]
pub struct WebhookTarget {
    /// Who takes the deliveries.
    pub receiver: Arc<dyn WebhookReceiver>,
    /// The format of their bodies.
    pub format: WebhookFormat,
    /// What is sent.
    pub topics: BTreeSet<WebhookTopic>,
    /// The products whose jobs and alerts are sent; everything when empty.
    pub products: BTreeSet<ProductId>,
    /// Whether deliveries are signed.
    pub is_signed: bool,
}

/// The state of all webhooks.
pub(crate) struct Notifier {
    targets: OnceLock<BTreeMap<WebhookName, WebhookTarget>>,
    configured: Notify,
    health: Mutex<BTreeMap<WebhookName, WebhookHealth>>,
    /// The current alerts, once they are known.
    alerts: watch::Sender<Option<Arc<Vec<Alert>>>>,
    /// Makes every webhook look for what it has to send.
    bell: watch::Sender<u64>,
}

/// Why a webhook stops sending for now.
enum Stop {
    /// Until this time on the monotonic clock.
    Paused(Duration),
    /// The store could not be read or written.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl Default for Notifier {
    fn default() -> Self {
        Self {
            targets: OnceLock::new(),
            configured: Notify::new(),
            health: Mutex::default(),
            alerts: watch::Sender::new(None),
            bell: watch::Sender::new(0),
        }
    }
}

impl Notifier {
    /// Makes every webhook look for what a lost wake-up missed.
    pub(crate) fn ring(&self) {
        self.bell.send_modify(|rings| *rings += 1);
    }
}

impl WebhookTarget {
    fn wants_alerts(&self) -> bool {
        self.topics.contains(&WebhookTopic::Alerts)
    }

    fn wants_jobs(&self) -> bool {
        self.topics.iter().any(|topic| *topic != WebhookTopic::Alerts)
    }

    fn wants_stage(&self, stage: StageName) -> bool {
        self.topics.contains(&WebhookTopic::Jobs) || self.topics.contains(&WebhookTopic::Stage(stage))
    }

    fn covers(&self, product: Option<&ProductId>) -> bool {
        self.products.is_empty() || product.is_some_and(|product| self.products.contains(product))
    }
}

impl Coordinator {
    /// Sets the webhooks, once.
    pub fn set_webhooks(&self, targets: BTreeMap<WebhookName, WebhookTarget>) {
        // Another set would be ignored: the first one is in use.
        let _ = self.notifier.targets.set(targets);
        self.notifier.configured.notify_one();
    }

    /// Sends webhooks until the coordinator stops.
    pub(crate) async fn run_webhooks(&self) {
        let sending = async {
            let targets = loop {
                match self.notifier.targets.get() {
                    Some(targets) => break targets,
                    None => self.notifier.configured.notified().await,
                }
            };
            let watching = async {
                if targets.values().any(WebhookTarget::wants_alerts) {
                    self.watch_alerts().await;
                }
            };
            let sending = join_all(targets.iter().map(|(name, target)| self.run_webhook(name, target)));
            tokio::join!(watching, sending);
        };
        // A delivery that is cut off has an unknown outcome: it is repeated with its id after the next start.
        self.stopping.run_until_cancelled(sending).await;
    }

    async fn run_webhook(&self, name: &WebhookName, target: &WebhookTarget) {
        let mut bell = self.notifier.bell.subscribe();
        let mut alerts = self.notifier.alerts.subscribe();
        let mut cursor = loop {
            match self.load_cursor(name).await {
                Ok(cursor) => break cursor,
                Err(error) => {
                    warn!(webhook = %name, %error, "Could not read the state of webhook `{name}`, retrying");
                    self.ports.clock.sleep(PAUSE_FIRST).await;
                }
            }
        };
        loop {
            bell.borrow_and_update();
            let current = alerts.borrow_and_update().clone();
            match self.send_due(name, target, &mut cursor, current.as_deref()).await {
                Ok(()) => {}
                Err(Stop::Paused(until)) => {
                    self.ports.clock.sleep(until.saturating_sub(self.ports.clock.monotonic())).await;
                    continue;
                }
                Err(Stop::Failed(error)) => {
                    warn!(webhook = %name, %error, "Could not send webhook `{name}`, retrying");
                    self.ports.clock.sleep(PAUSE_FIRST).await;
                    continue;
                }
            }
            let log_grows = async {
                match target.wants_jobs() {
                    // A failed wait is repeated after the pause below.
                    true => drop(self.ports.jobs.changed(cursor.reached).await),
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = bell.changed() => {}
                _ = alerts.changed() => {}
                () = log_grows => {}
            }
            self.ports.clock.sleep(READ_EVERY).await;
        }
    }

    async fn send_due(
        &self,
        name: &WebhookName,
        target: &WebhookTarget,
        cursor: &mut Cursor,
        alerts: Option<&Vec<Alert>>,
    ) -> Result<(), Stop> {
        if let Some(alerts) = alerts.filter(|_| target.wants_alerts()) {
            self.send_alerts(name, target, cursor, alerts).await?;
        }
        if target.wants_jobs() {
            self.send_jobs(name, target, cursor).await?;
        }
        Ok(())
    }

    /// The webhooks and their state.
    pub fn webhooks(&self, who: &Principal) -> Result<WebhookList, Error> {
        who.require_admin()?;
        let (now, wall) = (self.ports.clock.monotonic(), self.now());
        let health = self.notifier.health.lock();
        let items = self.notifier.targets.get().into_iter().flatten().map(|(name, target)| {
            let health = health.get(name).cloned().unwrap_or_default();
            let is_failing = health.failures > 0;
            WebhookView {
                name: name.clone(),
                address: target.receiver.address(),
                format: target.format,
                events: target.topics.iter().map(ToString::to_string).collect(),
                is_signed: target.is_signed,
                products: target.products.iter().cloned().collect(),
                delivered: health.delivered,
                failed: health.failed,
                dropped: health.dropped,
                failures: health.failures,
                last_delivery_at: health.last_delivery,
                retry_at: (is_failing && health.next_at > now).then(|| wall.after(health.next_at.saturating_sub(now))),
                error: health.error.filter(|_| is_failing),
            }
        });
        Ok(WebhookList { items: items.collect() })
    }

    /// Sends a test delivery now. Its outcome changes neither the state nor the alert of the webhook.
    pub async fn test_webhook(&self, who: &Principal, name: &WebhookName) -> Result<WebhookTestResponse, Error> {
        who.require_admin()?;
        let target = self.notifier.targets.get().and_then(|targets| targets.get(name));
        let Some(target) = target else { return Err(Error::NoSuchWebhook(name.clone())) };
        let notice = self.test_notice(name);
        let sent = target.receiver.deliver(&notice::rendered(&notice, target.format)).await;
        Ok(WebhookTestResponse {
            delivered: sent.is_ok(),
            delivery_id: notice.id,
            error: sent.err().map(|error| error.to_string()),
        })
    }

    /// Webhooks whose receiver takes nothing.
    pub(crate) fn webhook_alerts(&self) -> Vec<Alert> {
        let health = self.notifier.health.lock();
        let failing = health.iter().filter(|(_, health)| health.failures >= FAILURES_BEFORE_ALERT);
        let told = failing.map(|(name, health)| {
            let error = health.error.as_deref().unwrap_or_default();
            let message = format!(
                "webhook `{name}` was not delivered ({} times in a row): {error}: check its address and the receiver, then \
                 `giga webhook test {name}`",
                health.failures
            );
            let since = health.failing_since.unwrap_or(self.started_at);
            about(alert(AlertCode::WebhookFailing, message, since, None), name)
        });
        told.collect()
    }
}

/// The coordinator itself, which sees everything.
fn everything() -> Principal {
    Principal {
        token: TokenId::from_bytes([0; 16]),
        name: "webhooks".to_owned(),
        owner: None,
        grant: TokenScope::Admin,
        session: None,
    }
}

/// Whether something is too old to be sent.
fn is_outdated(at: Timestamp, now: Timestamp) -> bool {
    now.since(at) > delivery::AGE_MAX
}

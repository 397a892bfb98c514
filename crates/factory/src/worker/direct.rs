//! Receiving offers from the broker itself, beside the inbox [D6]. If the broker is away, the coordinator is told, and offers
//! come through the inbox again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::Backoff;
use domain::{
    BrokerConnector, BrokerError, BrokerLogin, Message, MessageId, Receipt, Receives, Subscription, Timestamp,
};
use parking_lot::Mutex;
use protocol::ReceivedShadow;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::Worker;

/// The first pause after the broker failed; doubled each time up to the maximum.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// A login is renewed this long before it expires.
const RENEWED_BEFORE: Duration = Duration::from_hours(12);

/// How long received shadow messages are collected before a heartbeat reports them.
const SHADOWS_COLLECTED: Duration = Duration::from_millis(500);

/// Shadow messages that wait to be reported. Older ones count as missing at the coordinator.
const SHADOWS_MAX: usize = 1_000;

/// The state of the connection to the broker.
#[derive(Debug, Default)]
pub(super) struct DirectReceiving {
    login: watch::Sender<Option<BrokerLogin>>,
    is_connected: AtomicBool,
    shadows: Mutex<VecDeque<(MessageId, Duration)>>,
}

/// Shadow messages that are being reported, and when each was received.
pub(super) struct ShadowReports {
    received: VecDeque<(MessageId, Duration)>,
    now: Duration,
}

impl ShadowReports {
    pub(super) fn reports(&self) -> Vec<ReceivedShadow> {
        let report = |(id, at): &(MessageId, Duration)| ReceivedShadow {
            job_id: id.job,
            dispatch_seq: id.seq,
            held_ms: u64::try_from(self.now.saturating_sub(*at).as_millis()).unwrap_or(u64::MAX),
        };
        self.received.iter().map(report).collect()
    }
}

impl DirectReceiving {
    pub(super) fn receives(&self) -> Receives {
        if self.is_connected.load(Ordering::Relaxed) { Receives::Broker } else { Receives::Inbox }
    }

    pub(super) fn wants_login(&self, now: Timestamp) -> bool {
        let until = self.login.borrow().as_ref().map(|login| login.until);
        self.receives() == Receives::Inbox || until.is_none_or(|until| until < now.after(RENEWED_BEFORE))
    }

    /// Notes a shadow message; returns whether it is the first one to be reported.
    fn add_shadow(&self, id: MessageId, now: Duration) -> bool {
        let mut shadows = self.shadows.lock();
        shadows.push_back((id, now));
        if shadows.len() > SHADOWS_MAX {
            shadows.pop_front();
        }
        shadows.len() == 1
    }

    /// The shadow messages that a heartbeat reports.
    pub(super) fn take_shadows(&self, now: Duration) -> ShadowReports {
        ShadowReports { received: std::mem::take(&mut *self.shadows.lock()), now }
    }

    /// The heartbeat failed: the next one reports them.
    pub(super) fn return_shadows(&self, reports: ShadowReports) {
        let mut shadows = self.shadows.lock();
        let later = std::mem::replace(&mut *shadows, reports.received);
        shadows.extend(later);
        while shadows.len() > SHADOWS_MAX {
            shadows.pop_front();
        }
    }

    pub(super) fn got(&self, login: Option<BrokerLogin>) {
        if login.is_some() {
            self.login.send_replace(login);
        }
    }
}

/// Where the message of an offer came from, to be completed once the offer is answered.
pub(super) struct OfferSource(Option<(Arc<dyn Subscription>, Receipt)>);

impl OfferSource {
    /// The coordinator completes it.
    pub(super) fn inbox() -> Self {
        Self(None)
    }

    /// The offer was answered: it is not delivered again.
    pub(super) async fn complete(self) {
        if let Some((subscription, receipt)) = self.0
            && let Err(error) = subscription.complete(&receipt).await
        {
            debug!(%error, "Could not complete an offer's message: it is answered again");
        }
    }

    /// The coordinator could not be asked: the broker delivers the offer again, if that is still of use.
    pub(super) async fn abandon(self) {
        if let Some((subscription, receipt)) = self.0
            && let Err(error) = subscription.abandon(&receipt).await
        {
            debug!(%error, "Could not abandon an offer's message: it is delivered again later");
        }
    }
}

impl Worker {
    /// Receives from the broker whenever there is a login for it.
    pub(super) async fn receive_directly(self: &Arc<Self>) {
        let Some(connector) = self.settings.broker.clone() else { return std::future::pending().await };
        let mut logins = self.direct.login.subscribe();
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX);
        loop {
            let known = logins.borrow_and_update().clone();
            let Some(login) = known else {
                // Each heartbeat asks for one. Most coordinators have no broker on the network.
                if logins.changed().await.is_err() {
                    return std::future::pending().await;
                }
                continue;
            };
            let since = self.clock.monotonic();
            let Err(error) = self.receive_with(&*connector, &login, &mut logins).await else {
                if self.direct.wants_login(self.clock.now()) {
                    self.report_how_it_receives().await;
                }
                continue;
            };
            if self.direct.is_connected.swap(false, Ordering::Relaxed) {
                warn!(%error, "Lost the broker at {}: receiving through the coordinator", login.url);
                self.report_how_it_receives().await;
            } else {
                debug!(%error, "The broker at {} is not available", login.url);
            }
            if self.clock.monotonic().saturating_sub(since) > RETRY_MAX {
                backoff.reset();
            }
            self.clock.sleep(backoff.next_pause()).await;
            // The heartbeat asks for another login; the coordinator then creates what the broker has lost, too.
            self.report_how_it_receives().await;
        }
    }

    /// Receives with a login, until the broker fails or there is another login.
    async fn receive_with(
        self: &Arc<Self>,
        connector: &dyn BrokerConnector,
        login: &BrokerLogin,
        logins: &mut watch::Receiver<Option<BrokerLogin>>,
    ) -> Result<(), BrokerError> {
        let broker = connector.connect(&self.settings.name, login).await?;
        let subscription = broker.subscribe(&self.settings.name).await?;
        if !self.direct.is_connected.swap(true, Ordering::Relaxed) {
            info!("Receiving offers from the broker at {}", login.url);
            self.report_how_it_receives().await;
        }
        let left = u64::try_from(login.until.as_millis() - self.clock.now().as_millis()).unwrap_or(0);
        let renewed_in = Duration::from_millis(left).saturating_sub(RENEWED_BEFORE).max(RETRY_MAX);
        let due = self.clock.monotonic() + renewed_in;
        loop {
            let delivery = tokio::select! {
                delivery = subscription.receive() => delivery?,
                Ok(()) = logins.changed() => return Ok(()),
                () = self.clock.sleep(due.saturating_sub(self.clock.monotonic())) => return Ok(()),
            };
            let id = delivery.message.id();
            debug!(job.id = %id.job, dispatch.seq = %id.seq, "Received offer {id} from the broker");
            let source = OfferSource(Some((Arc::clone(&subscription), delivery.receipt)));
            self.take(&delivery.message, source);
        }
    }

    /// Reports a shadow message with the next heartbeat, which is sent soon: the coordinator waits only for seconds.
    pub(super) fn note_shadow(self: &Arc<Self>, message: &Message) {
        if self.direct.add_shadow(message.id(), self.clock.monotonic()) {
            let worker = Arc::clone(self);
            self.tasks.spawn(async move {
                worker.clock.sleep(SHADOWS_COLLECTED).await;
                worker.report_how_it_receives().await;
            });
        }
    }

    /// The coordinator routes offers by the last heartbeat. If it is away, the next one tells it.
    async fn report_how_it_receives(&self) {
        if let Err(error) = self.heartbeat().await {
            debug!(%error, "Could not report how offers are received");
        }
    }
}

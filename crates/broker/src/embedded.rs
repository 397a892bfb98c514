//! An in-memory broker in the coordinator's process. The sweep redispatches messages that are lost with the process.

mod dedup;
mod hub;
mod mailbox;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{Broker, BrokerError, Clock, Delivery, FactoryId, Message, PublishOutcome, Receipt, Subscription};
use parking_lot::Mutex;
use tokio::sync::Notify;

use hub::Hub;
use mailbox::DeliveryNo;

/// Limits of the embedded broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Maximum number of deliveries before a message is dead-lettered.
    pub deliveries_max: u32,
    /// Maximum number of incomplete messages per factory. Beyond it a publish is rejected and the sweep retries.
    pub queue_max: usize,
    /// How long message ids are kept for deduplication.
    pub window: Duration,
    /// Maximum number of ids kept for deduplication.
    pub window_max: usize,
    /// Maximum number of dead letters; the oldest are dropped.
    pub dead_letters_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deliveries_max: 10,
            // Far more than a factory has seats: only a disconnected factory fills it.
            queue_max: 10_000,
            // A publish is retried within seconds; hosted brokers use a similar window.
            window: Duration::from_secs(600),
            // Ten seconds at ten thousand dispatches per second.
            window_max: 100_000,
            // More than an operator reads.
            dead_letters_max: 1_000,
        }
    }
}

/// A broker within one process.
#[derive(Clone)]
pub struct Embedded {
    post: Arc<Mutex<Hub>>,
    clock: Arc<dyn Clock>,
}

impl Embedded {
    /// An empty broker. The clock expires message ids.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>) -> Self {
        Self { post: Arc::new(Mutex::new(Hub::new(settings))), clock }
    }

    /// Closes every subscription and rejects new messages.
    pub fn close(&self) {
        self.post.lock().close();
    }
}

#[async_trait]
impl Broker for Embedded {
    async fn publish(&self, message: Message) -> Result<PublishOutcome, BrokerError> {
        let now = self.clock.monotonic();
        self.post.lock().publish(message, now)
    }

    async fn subscribe(&self, factory: &FactoryId) -> Result<Arc<dyn Subscription>, BrokerError> {
        let wake = self.post.lock().subscribe(factory)?;
        Ok(Arc::new(EmbeddedSubscription { post: Arc::clone(&self.post), factory: factory.clone(), wake }))
    }

    async fn dismiss(&self, factory: &FactoryId) -> Result<(), BrokerError> {
        self.post.lock().dismiss(factory);
        Ok(())
    }

    async fn depths(&self) -> Result<BTreeMap<FactoryId, u64>, BrokerError> {
        Ok(self.post.lock().depths())
    }

    async fn mirror_dead_letter(&self, message: Message, reason: &str) -> Result<(), BrokerError> {
        self.post.lock().move_to_dead_letters(message, reason.to_owned());
        Ok(())
    }

    async fn dead_letters(&self, limit: u16) -> Result<Vec<(Message, String)>, BrokerError> {
        Ok(self.post.lock().dead_letters(usize::from(limit)))
    }
}

/// An open queue of one factory. Dropping it requeues incomplete messages.
struct EmbeddedSubscription {
    post: Arc<Mutex<Hub>>,
    factory: FactoryId,
    /// Also identifies the subscription: the mailbox stores that of its current holder.
    wake: Arc<Notify>,
}

#[async_trait]
impl Subscription for EmbeddedSubscription {
    async fn receive(&self) -> Result<Delivery, BrokerError> {
        loop {
            let woken = self.wake.notified();
            tokio::pin!(woken);
            // Register for the wake-up before checking the queue, so that no message is missed.
            woken.as_mut().enable();
            let next = self.post.lock().deliver(&self.factory, &self.wake)?;
            match next {
                Some(delivery) => return Ok(delivery),
                None => woken.await,
            }
        }
    }

    async fn complete(&self, receipt: &Receipt) -> Result<(), BrokerError> {
        let no = DeliveryNo::of(receipt)?;
        self.post.lock().complete(&self.factory, &self.wake, no)
    }

    async fn abandon(&self, receipt: &Receipt) -> Result<(), BrokerError> {
        let no = DeliveryNo::of(receipt)?;
        self.post.lock().abandon(&self.factory, &self.wake, no)
    }

    async fn dead_letter(&self, receipt: &Receipt, reason: &str) -> Result<(), BrokerError> {
        let no = DeliveryNo::of(receipt)?;
        self.post.lock().reject(&self.factory, &self.wake, no, reason)
    }
}

impl Drop for EmbeddedSubscription {
    fn drop(&mut self) {
        self.post.lock().leave(&self.factory, &self.wake);
    }
}

//! A broker in the coordinator's own memory. What it loses with the process, the sweep dispatches again.

mod dedup;
mod hub;
mod mailbox;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{Broker, BrokerError, Clock, Delivery, FactoryId, Message, PublishOutcome, Receipt, Subscription};
use parking_lot::Mutex;
use tokio::sync::Notify;

use hub::Hub;
use mailbox::DeliveryNo;

/// The bounds of an embedded broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Deliveries of one message before it is dead-lettered.
    pub deliveries_max: u32,
    /// Messages for one factory that are not completed; beyond it a publish is refused and the sweep comes round.
    pub queue_max: usize,
    /// How long a message's id is remembered.
    pub window: Duration,
    /// How many ids are remembered.
    pub window_max: usize,
    /// How many dead letters are kept; the oldest are forgotten.
    pub dead_letters_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deliveries_max: 10,
            // Far more than a factory has seats, so that only one that is gone can fill it.
            queue_max: 10_000,
            // A publish is tried again within seconds; the usual window of hosted brokers is generous enough.
            window: Duration::from_secs(600),
            // Ten seconds' worth at ten thousand dispatches a second.
            window_max: 100_000,
            // As many as a person will ever look through.
            dead_letters_max: 1_000,
        }
    }
}

/// Delivers messages within one process.
#[derive(Clone)]
pub struct Embedded {
    post: Arc<Mutex<Hub>>,
    clock: Arc<dyn Clock>,
}

impl Embedded {
    /// A broker without messages. The clock says when a message's id is forgotten.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>) -> Self {
        Self { post: Arc::new(Mutex::new(Hub::new(settings))), clock }
    }

    /// Ends every subscription and takes no more messages.
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

    async fn depth(&self, factory: &FactoryId) -> Result<u64, BrokerError> {
        Ok(self.post.lock().depth(factory))
    }

    async fn mirror_dead_letter(&self, message: Message, reason: &str) -> Result<(), BrokerError> {
        self.post.lock().bury(message, reason.to_owned());
        Ok(())
    }

    async fn dead_letters(&self, limit: u16) -> Result<Vec<(Message, String)>, BrokerError> {
        Ok(self.post.lock().dead_letters(usize::from(limit)))
    }
}

/// One factory's queue, held open. Dropping it leaves what was not completed to the next one.
struct EmbeddedSubscription {
    post: Arc<Mutex<Hub>>,
    factory: FactoryId,
    /// Also says which subscription this is: the mailbox knows its current one by it.
    wake: Arc<Notify>,
}

#[async_trait]
impl Subscription for EmbeddedSubscription {
    async fn receive(&self) -> Result<Delivery, BrokerError> {
        loop {
            let woken = self.wake.notified();
            tokio::pin!(woken);
            // Listens before it looks, so that nothing arrives between the two unheard.
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

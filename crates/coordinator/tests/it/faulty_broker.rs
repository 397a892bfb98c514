//! A fault-injecting broker in front of the embedded one: it loses, repeats, delays and reorders messages.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use clock::SeededEntropy;
use domain::{Broker, BrokerError, Delivery, Entropy, FactoryId, Message, PublishOutcome, Receipt, Subscription};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The receipt of a copy that the real broker does not know.
const COPY: &str = "copy";

/// A broker that injects faults.
pub(crate) struct FaultyBroker {
    broker: Arc<dyn Broker>,
    chance: SeededEntropy,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    faults: Faults,
    delayed: Vec<Message>,
    copies: HashMap<FactoryId, (VecDeque<Message>, Arc<Notify>)>,
}

/// The faults to inject.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// The share of messages that are accepted and never delivered.
    pub(crate) lost: f64,
    /// The share of messages that are delivered once more.
    pub(crate) repeated: f64,
    /// The share of messages that wait until [`FaultyBroker::release`].
    pub(crate) delayed: f64,
    /// Every message is reported as a duplicate and not delivered.
    pub(crate) calls_all_duplicates: bool,
    /// Nothing can be published.
    pub(crate) is_down: bool,
    /// Requests are never answered.
    pub(crate) hangs: bool,
}

impl FaultyBroker {
    pub(crate) fn new(broker: Arc<dyn Broker>, seed: u64) -> Self {
        Self { broker, chance: SeededEntropy::new(seed), state: Arc::default() }
    }

    /// Changes the faults.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.state.lock().faults);
    }

    /// Removes all faults; delayed messages stay delayed.
    pub(crate) fn heal(&self) {
        self.set(|faults| *faults = Faults::default());
    }

    /// Delivers all delayed messages, shuffled.
    pub(crate) async fn release(&self) {
        let mut delayed = std::mem::take(&mut self.state.lock().delayed);
        while !delayed.is_empty() {
            let at = (self.fraction() * delayed.len() as f64) as usize;
            let _ = self.broker.publish(delayed.swap_remove(at)).await;
        }
    }

    fn fraction(&self) -> f64 {
        (&self.chance as &dyn Entropy).fraction()
    }

    fn copy(&self, message: Message) {
        let mut state = self.state.lock();
        let (copies, bell) = state.copies.entry(message.target_factory_id.clone()).or_default();
        copies.push_back(message);
        bell.notify_one();
    }
}

#[async_trait]
impl Broker for FaultyBroker {
    async fn publish(&self, message: Message) -> Result<PublishOutcome, BrokerError> {
        let faults = self.state.lock().faults.clone();
        if faults.is_down {
            return Err(BrokerError::Unavailable("it is down".to_owned()));
        }
        if faults.hangs {
            std::future::pending::<()>().await;
        }
        if faults.calls_all_duplicates {
            return Ok(PublishOutcome::Duplicate);
        }
        if self.fraction() < faults.repeated {
            self.copy(message.clone());
        }
        if self.fraction() < faults.lost {
            return Ok(PublishOutcome::Accepted);
        }
        if self.fraction() < faults.delayed {
            self.state.lock().delayed.push(message);
            return Ok(PublishOutcome::Accepted);
        }
        self.broker.publish(message).await
    }

    async fn subscribe(&self, factory: &FactoryId) -> Result<Arc<dyn Subscription>, BrokerError> {
        let subscription = self.broker.subscribe(factory).await?;
        let bell = Arc::clone(&self.state.lock().copies.entry(factory.clone()).or_default().1);
        Ok(Arc::new(Repeating { subscription, factory: factory.clone(), state: Arc::clone(&self.state), bell }))
    }

    async fn dismiss(&self, factory: &FactoryId) -> Result<(), BrokerError> {
        self.broker.dismiss(factory).await
    }

    async fn depths(&self) -> Result<BTreeMap<FactoryId, u64>, BrokerError> {
        self.broker.depths().await
    }

    async fn mirror_dead_letter(&self, message: Message, reason: &str) -> Result<(), BrokerError> {
        if self.state.lock().faults.is_down {
            return Err(BrokerError::Unavailable("it is down".to_owned()));
        }
        self.broker.mirror_dead_letter(message, reason).await
    }

    async fn dead_letters(&self, limit: u16) -> Result<Vec<(Message, String)>, BrokerError> {
        self.broker.dead_letters(limit).await
    }
}

/// One factory's queue, with copies among the real messages.
struct Repeating {
    subscription: Arc<dyn Subscription>,
    factory: FactoryId,
    state: Arc<Mutex<State>>,
    bell: Arc<Notify>,
}

impl Repeating {
    fn next_copy(&self) -> Option<Delivery> {
        let message = self.state.lock().copies.get_mut(&self.factory)?.0.pop_front()?;
        Some(Delivery { message, attempt: 2, receipt: Receipt(COPY.to_owned()) })
    }
}

#[async_trait]
impl Subscription for Repeating {
    async fn receive(&self) -> Result<Delivery, BrokerError> {
        loop {
            if let Some(copy) = self.next_copy() {
                return Ok(copy);
            }
            tokio::select! {
                delivery = self.subscription.receive() => return delivery,
                () = self.bell.notified() => {}
            }
        }
    }

    async fn complete(&self, receipt: &Receipt) -> Result<(), BrokerError> {
        if receipt.0 == COPY { Ok(()) } else { self.subscription.complete(receipt).await }
    }

    async fn abandon(&self, receipt: &Receipt) -> Result<(), BrokerError> {
        if receipt.0 == COPY { Ok(()) } else { self.subscription.abandon(receipt).await }
    }

    async fn dead_letter(&self, receipt: &Receipt, reason: &str) -> Result<(), BrokerError> {
        if receipt.0 == COPY { Ok(()) } else { self.subscription.dead_letter(receipt, reason).await }
    }
}

//! All mailboxes, with the shared deduplication window and dead letters.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use domain::{BrokerError, Delivery, FactoryId, Message, PublishOutcome};
use foldhash::{HashMap, HashMapExt as _};
use tokio::sync::Notify;

use super::Settings;
use super::dedup::DedupWindow;
use super::mailbox::{DeliveryNo, Mailbox, QueuedMessage};

/// The state of an embedded broker.
pub(crate) struct Hub {
    settings: Settings,
    state: State,
    mailboxes: HashMap<FactoryId, Mailbox>,
    window: DedupWindow,
    dead: VecDeque<(Message, String)>,
    /// Numbers messages and deliveries. Never reused, so that an old receipt matches no later delivery.
    next: u64,
}

#[derive(PartialEq, Eq)]
enum State {
    Open,
    Closed,
}

impl Hub {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::Open,
            mailboxes: HashMap::new(),
            window: DedupWindow::new(settings.window, settings.window_max),
            dead: VecDeque::new(),
            next: 0,
        }
    }

    pub(crate) fn publish(&mut self, message: Message, now: Duration) -> Result<PublishOutcome, BrokerError> {
        if self.state == State::Closed {
            return Err(BrokerError::Unavailable("it is shut down".into()));
        }
        if self.window.contains(&message.id(), now) {
            return Ok(PublishOutcome::Duplicate);
        }
        let factory = message.target_factory_id.clone();
        if self.mailboxes.get(&factory).is_some_and(|mailbox| mailbox.depth() >= self.settings.queue_max) {
            return Err(BrokerError::Unavailable(format!("the queue of `{factory}` is full")));
        }
        self.window.record(message.id(), now);
        let no = self.number();
        self.mailboxes.entry(factory).or_default().put(no, QueuedMessage { message, deliveries: 0 });
        Ok(PublishOutcome::Accepted)
    }

    /// Opens a mailbox. Incomplete messages of the previous subscription are redelivered.
    pub(crate) fn subscribe(&mut self, factory: &FactoryId) -> Result<Arc<Notify>, BrokerError> {
        if self.state == State::Closed {
            return Err(BrokerError::Closed);
        }
        self.reclaim(factory);
        let wake = Arc::new(Notify::new());
        self.mailboxes.entry(factory.clone()).or_default().open(&wake);
        Ok(wake)
    }

    /// The next message of a mailbox.
    pub(crate) fn deliver(&mut self, factory: &FactoryId, wake: &Arc<Notify>) -> Result<Option<Delivery>, BrokerError> {
        let no = self.number();
        let mailbox = self.subscribed(factory, wake).ok_or(BrokerError::Closed)?;
        Ok(mailbox.deliver(no))
    }

    pub(crate) fn complete(
        &mut self,
        factory: &FactoryId,
        wake: &Arc<Notify>,
        no: DeliveryNo,
    ) -> Result<(), BrokerError> {
        self.take(factory, wake, no).map(drop)
    }

    /// Requeues a message at the end, so that it does not block others.
    pub(crate) fn abandon(
        &mut self,
        factory: &FactoryId,
        wake: &Arc<Notify>,
        no: DeliveryNo,
    ) -> Result<(), BrokerError> {
        let parcel = self.take(factory, wake, no)?;
        let place = self.number();
        self.redeliver(factory, place, parcel);
        Ok(())
    }

    pub(crate) fn reject(
        &mut self,
        factory: &FactoryId,
        wake: &Arc<Notify>,
        no: DeliveryNo,
        reason: &str,
    ) -> Result<(), BrokerError> {
        let parcel = self.take(factory, wake, no)?;
        self.move_to_dead_letters(parcel.message, reason.to_owned());
        Ok(())
    }

    /// Ends a subscription and requeues its incomplete messages.
    pub(crate) fn leave(&mut self, factory: &FactoryId, wake: &Arc<Notify>) {
        if self.subscribed(factory, wake).is_none() {
            return;
        }
        self.reclaim(factory);
        if let Some(mailbox) = self.mailboxes.get_mut(factory) {
            mailbox.shut();
            if mailbox.depth() == 0 {
                self.mailboxes.remove(factory);
            }
        }
    }

    pub(crate) fn close(&mut self) {
        self.state = State::Closed;
        self.mailboxes.values_mut().for_each(Mailbox::shut);
    }

    /// Removes a mailbox with its messages. Its subscription is closed.
    pub(crate) fn dismiss(&mut self, factory: &FactoryId) {
        if let Some(mut mailbox) = self.mailboxes.remove(factory) {
            mailbox.shut();
        }
    }

    pub(crate) fn depths(&self) -> BTreeMap<FactoryId, u64> {
        let depths = self.mailboxes.iter().map(|(factory, mailbox)| (factory.clone(), mailbox.depth() as u64));
        depths.filter(|(_, depth)| *depth > 0).collect()
    }

    pub(crate) fn move_to_dead_letters(&mut self, message: Message, reason: String) {
        self.dead.push_back((message, reason));
        while self.dead.len() > self.settings.dead_letters_max {
            self.dead.pop_front();
        }
    }

    /// The newest dead letters, newest last.
    pub(crate) fn dead_letters(&self, limit: usize) -> Vec<(Message, String)> {
        self.dead.iter().skip(self.dead.len().saturating_sub(limit)).cloned().collect()
    }

    /// The mailbox, if this subscription still holds it.
    fn subscribed(&mut self, factory: &FactoryId, wake: &Arc<Notify>) -> Option<&mut Mailbox> {
        self.mailboxes.get_mut(factory).filter(|mailbox| mailbox.is_held_by(wake))
    }

    fn take(&mut self, factory: &FactoryId, wake: &Arc<Notify>, no: DeliveryNo) -> Result<QueuedMessage, BrokerError> {
        self.subscribed(factory, wake).and_then(|mailbox| mailbox.take(no)).ok_or(BrokerError::Expired)
    }

    /// Requeues received and incomplete messages at their old positions.
    fn reclaim(&mut self, factory: &FactoryId) {
        let unfinished = self.mailboxes.get_mut(factory).map(Mailbox::take_incomplete).unwrap_or_default();
        for (place, parcel) in unfinished {
            self.redeliver(factory, place, parcel);
        }
    }

    fn redeliver(&mut self, factory: &FactoryId, place: u64, parcel: QueuedMessage) {
        if parcel.deliveries >= self.settings.deliveries_max {
            let reason = format!("delivered {} times and never completed", parcel.deliveries);
            self.move_to_dead_letters(parcel.message, reason);
        } else {
            self.mailboxes.entry(factory.clone()).or_default().put(place, parcel);
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

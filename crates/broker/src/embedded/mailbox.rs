//! The mailbox of one factory.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{BrokerError, Delivery, Message, Receipt};
use tokio::sync::Notify;

/// Incomplete messages of one factory.
#[derive(Default)]
pub(crate) struct Mailbox {
    /// By position in the queue.
    waiting: BTreeMap<u64, QueuedMessage>,
    /// Received and incomplete messages with their positions, by delivery.
    locked: BTreeMap<u64, (u64, QueuedMessage)>,
    /// The current subscription, identified by its wake-up handle.
    holder: Option<Arc<Notify>>,
}

/// A message with its number of deliveries.
pub(crate) struct QueuedMessage {
    pub(crate) message: Message,
    pub(crate) deliveries: u32,
}

/// The delivery number in a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeliveryNo(u64);

impl DeliveryNo {
    pub(crate) fn of(receipt: &Receipt) -> Result<Self, BrokerError> {
        receipt.0.parse().map(Self).map_err(|_| BrokerError::Expired)
    }
}

impl Mailbox {
    pub(crate) fn depth(&self) -> usize {
        self.waiting.len() + self.locked.len()
    }

    pub(crate) fn put(&mut self, place: u64, parcel: QueuedMessage) {
        self.waiting.insert(place, parcel);
        self.wake();
    }

    /// A new subscription replaces the previous one.
    pub(crate) fn open(&mut self, wake: &Arc<Notify>) {
        self.shut();
        self.holder = Some(Arc::clone(wake));
    }

    /// Ends the subscription and wakes its receiver.
    pub(crate) fn shut(&mut self) {
        self.wake();
        self.holder = None;
    }

    pub(crate) fn is_held_by(&self, wake: &Arc<Notify>) -> bool {
        self.holder.as_ref().is_some_and(|holder| Arc::ptr_eq(holder, wake))
    }

    pub(crate) fn deliver(&mut self, no: u64) -> Option<Delivery> {
        let (place, mut parcel) = self.waiting.pop_first()?;
        parcel.deliveries += 1;
        let delivery =
            Delivery { message: parcel.message.clone(), attempt: parcel.deliveries, receipt: Receipt(no.to_string()) };
        self.locked.insert(no, (place, parcel));
        Some(delivery)
    }

    pub(crate) fn take(&mut self, DeliveryNo(no): DeliveryNo) -> Option<QueuedMessage> {
        self.locked.remove(&no).map(|(_, parcel)| parcel)
    }

    /// Removes all received and incomplete messages, with their positions.
    pub(crate) fn take_incomplete(&mut self) -> Vec<(u64, QueuedMessage)> {
        std::mem::take(&mut self.locked).into_values().collect()
    }

    fn wake(&self) {
        if let Some(holder) = &self.holder {
            holder.notify_waiters();
        }
    }
}

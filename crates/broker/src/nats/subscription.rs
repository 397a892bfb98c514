//! The open queue of one factory: its consumer, and the deliveries that are not completed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_nats::client::RequestErrorKind;
use async_nats::jetstream::consumer;
use async_nats::jetstream::context::ConsumerInfoErrorKind as Missing;
use async_nats::{Subject, jetstream};
use async_trait::async_trait;
use domain::{BrokerError, Delivery, FactoryId, Message, PUBLISH_WITHIN, Receipt, Subscription};
use parking_lot::Mutex;
use tracing::warn;

use super::error::{unavailable, within};
use super::names::{DISPATCH_STREAM, consumer_name};
use super::pull::{Pull, Pulled};
use super::{Nats, UNANSWERED_MAX, dead_letters};

pub(super) struct NatsSubscription {
    nats: Nats,
    factory: FactoryId,
    consumer: consumer::Info,
    /// The request for the next message. A receiver that gives up leaves it to the next one.
    pull: tokio::sync::Mutex<Option<Pull>>,
    /// Deliveries that are not completed, by their message's place in the stream.
    unanswered: Mutex<HashMap<u64, Unanswered>>,
    deliveries: AtomicU64,
    closed: AtomicBool,
}

/// A delivery that is not completed.
struct Unanswered {
    /// Identifies the delivery, as in its receipt.
    no: u64,
    attempt: u32,
    message: Message,
    /// Where the answer goes.
    reply: Subject,
}

/// An answer to a delivery.
#[derive(Clone, Copy)]
enum Answer {
    Completed,
    Redeliver,
    Remove,
}

impl Answer {
    fn text(self) -> &'static str {
        match self {
            Self::Completed => "+ACK",
            Self::Redeliver => "-NAK",
            Self::Remove => "+TERM",
        }
    }
}

impl NatsSubscription {
    pub(super) fn new(nats: Nats, factory: FactoryId, consumer: consumer::Info) -> Self {
        Self {
            nats,
            factory,
            consumer,
            pull: tokio::sync::Mutex::default(),
            unanswered: Mutex::default(),
            deliveries: AtomicU64::default(),
            closed: AtomicBool::default(),
        }
    }

    /// Fails with `Closed` if another subscription replaced this one: it has the consumer's name, and a request by name
    /// would take its messages.
    async fn check_holder(&self) -> Result<(), BrokerError> {
        let stream = self.nats.context.get_stream_no_info(DISPATCH_STREAM).await.map_err(unavailable)?;
        match stream.consumer_info(consumer_name(&self.factory)).await {
            Ok(info) if info.created == self.consumer.created => Ok(()),
            Ok(_) => Err(self.close()),
            Err(error) if matches!(error.kind(), Missing::NotFound | Missing::StreamNotFound) => Err(self.close()),
            Err(error) => Err(unavailable(error)),
        }
    }

    fn close(&self) -> BrokerError {
        self.closed.store(true, Ordering::Relaxed);
        BrokerError::Closed
    }

    fn check_open(&self) -> Result<(), BrokerError> {
        if self.closed.load(Ordering::Relaxed) { Err(BrokerError::Closed) } else { Ok(()) }
    }

    /// Takes a delivered message; `None` if it was dead-lettered or removed instead.
    async fn take(&self, message: async_nats::Message) -> Result<Option<Delivery>, BrokerError> {
        let stored = jetstream::Message { message, context: self.nats.context.clone() };
        let (place, attempt) = match stored.info() {
            Ok(info) => (info.stream_sequence, u32::try_from(info.delivered).unwrap_or(u32::MAX)),
            Err(error) => return Err(BrokerError::Unavailable(error.to_string())),
        };
        let Some(reply) = stored.reply.clone() else {
            return Err(BrokerError::Unavailable("a delivery without a place for its answer".to_owned()));
        };
        let message: Message = match serde_json::from_slice(&stored.payload) {
            Ok(message) => message,
            Err(error) => {
                warn!(factory.id = %self.factory, %error, "Removed an unreadable message for factory `{}`", self.factory);
                self.answer(reply, Answer::Remove).await?;
                return Ok(None);
            }
        };
        if attempt > self.nats.deliveries_max {
            self.bury(message, attempt - 1, reply).await?;
            return Ok(None);
        }
        let no = self.deliveries.fetch_add(1, Ordering::Relaxed);
        let receipt = Receipt(format!("{place}:{no}"));
        let mut unanswered = self.unanswered.lock();
        // The server delivers no more than that; what is beyond was forgotten by it.
        if unanswered.len() >= 2 * usize::try_from(UNANSWERED_MAX).unwrap_or(usize::MAX) {
            unanswered.clear();
        }
        unanswered.insert(place, Unanswered { no, attempt, message: message.clone(), reply });
        Ok(Some(Delivery { message, attempt, receipt }))
    }

    /// Takes the delivery of a receipt out of the unanswered ones.
    fn settle(&self, receipt: &Receipt) -> Result<Unanswered, BrokerError> {
        self.check_open()?;
        let (place, no) = receipt.0.split_once(':').ok_or(BrokerError::Expired)?;
        let (Ok(place), Ok(no)) = (place.parse::<u64>(), no.parse::<u64>()) else { return Err(BrokerError::Expired) };
        let mut unanswered = self.unanswered.lock();
        if unanswered.get(&place).is_none_or(|delivery| delivery.no != no) {
            return Err(BrokerError::Expired);
        }
        unanswered.remove(&place).ok_or(BrokerError::Expired)
    }

    /// Sends an answer, and waits until the server has it.
    async fn answer(&self, reply: Subject, answer: Answer) -> Result<(), BrokerError> {
        let sent = self.nats.client.request(reply, answer.text().into());
        match tokio::time::timeout(PUBLISH_WITHIN, sent).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => Err(BrokerError::Expired),
            Ok(Err(error)) => Err(unavailable(error)),
            Err(_) => Err(BrokerError::Unavailable("no confirmation of an answer".to_owned())),
        }
    }

    /// Copies a message to the dead letters, then removes it. A crash in between repeats the copy, which has the same id.
    async fn bury(&self, message: Message, deliveries: u32, reply: Subject) -> Result<(), BrokerError> {
        let reason = format!("delivered {deliveries} times and never completed");
        within(PUBLISH_WITHIN, dead_letters::add(&self.nats, &message, &reason)).await?;
        self.answer(reply, Answer::Remove).await
    }
}

#[async_trait]
impl Subscription for NatsSubscription {
    async fn receive(&self) -> Result<Delivery, BrokerError> {
        self.check_open()?;
        let mut pull = self.pull.lock().await;
        loop {
            let request = match &mut *pull {
                Some(request) => request,
                None => {
                    self.check_holder().await?;
                    let name = consumer_name(&self.factory);
                    pull.insert(Pull::send(&self.nats.client, &name).await?)
                }
            };
            let pulled = request.answer().await;
            *pull = None;
            match pulled {
                Pulled::Message(message) => {
                    if let Some(delivery) = self.take(message).await? {
                        return Ok(delivery);
                    }
                }
                Pulled::Ended => {}
                Pulled::NoConsumer => return Err(self.close()),
            }
        }
    }

    async fn complete(&self, receipt: &Receipt) -> Result<(), BrokerError> {
        let delivery = self.settle(receipt)?;
        self.answer(delivery.reply, Answer::Completed).await
    }

    async fn abandon(&self, receipt: &Receipt) -> Result<(), BrokerError> {
        let delivery = self.settle(receipt)?;
        if delivery.attempt >= self.nats.deliveries_max {
            return self.bury(delivery.message, delivery.attempt, delivery.reply).await;
        }
        self.answer(delivery.reply, Answer::Redeliver).await
    }

    async fn dead_letter(&self, receipt: &Receipt, reason: &str) -> Result<(), BrokerError> {
        let delivery = self.settle(receipt)?;
        within(PUBLISH_WITHIN, dead_letters::add(&self.nats, &delivery.message, reason)).await?;
        self.answer(delivery.reply, Answer::Remove).await
    }
}

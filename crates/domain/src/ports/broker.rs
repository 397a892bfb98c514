//! Delivery of dispatches. A broker carries hints, never truth: losing, repeating or reordering them costs only time [I4].

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{DispatchSeq, JobId};
use crate::names::{Capability, FactoryId, ProductId, RepoName};
use crate::spec::Priority;

/// Delivers messages to factories.
#[async_trait]
pub trait Broker: Send + Sync {
    /// Hands a message over for its target. A message with an id that was published before collapses into that one.
    async fn publish(&self, message: Message) -> Result<PublishOutcome, BrokerError>;
    /// Opens the target's queue. A new subscription replaces the factory's former one: what that one had received and
    /// not completed is delivered again.
    async fn subscribe(&self, factory: &FactoryId) -> Result<Arc<dyn Subscription>, BrokerError>;
    /// Messages for a factory that are not completed.
    async fn depth(&self, factory: &FactoryId) -> Result<u64, BrokerError>;
    /// Mirrors a dead-lettered job to the broker's own dead-letter channel, for those who watch the broker.
    async fn mirror_dead_letter(&self, message: Message, reason: &str) -> Result<(), BrokerError>;
    /// Messages in the dead-letter channel, newest last.
    async fn dead_letters(&self, limit: u16) -> Result<Vec<(Message, String)>, BrokerError>;
}

/// One factory's queue, held open.
#[async_trait]
pub trait Subscription: Send + Sync {
    /// Waits for the next message. `Err(Closed)` once the subscription was replaced or the broker shut down.
    async fn receive(&self) -> Result<Delivery, BrokerError>;
    /// The message was acted upon: it is never delivered again.
    async fn complete(&self, receipt: &Receipt) -> Result<(), BrokerError>;
    /// The message was not acted upon: it is delivered again at once, or dead-lettered after too many deliveries.
    async fn abandon(&self, receipt: &Receipt) -> Result<(), BrokerError>;
    /// The message cannot be acted upon by anybody.
    async fn dead_letter(&self, receipt: &Receipt, reason: &str) -> Result<(), BrokerError>;
}

/// What travels: small, without the body, and without authority. Everything but the id is a hint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The job.
    pub job_id: JobId,
    /// The dispatch.
    pub dispatch_seq: DispatchSeq,
    /// Whose job it is.
    pub product_id: ProductId,
    /// The repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// What it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caps: Vec<Capability>,
    /// How urgent it is.
    pub priority: Priority,
    /// To whom it goes.
    pub target_factory_id: FactoryId,
}

impl Message {
    /// What the broker knows the message by.
    pub fn id(&self) -> MessageId {
        MessageId { job: self.job_id, seq: self.dispatch_seq }
    }
}

/// `jobId:dispatchSeq`: a retried publish keeps it, a new dispatch never reuses one [I5].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The job.
    pub job: JobId,
    /// The dispatch.
    pub seq: DispatchSeq,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.job, self.seq)
    }
}

/// What became of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishOutcome {
    /// It will be delivered.
    Accepted,
    /// A message with this id was published before.
    Duplicate,
}

/// A message on its way, with what is needed to complete it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The message.
    pub message: Message,
    /// How often it was delivered, this time included.
    pub attempt: u32,
    /// What completes it.
    pub receipt: Receipt,
}

/// What completes, abandons or dead-letters one delivery; meaningless for any later one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

/// Why a broker could not do it.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// It cannot be reached: the sweep will come round.
    #[error("the broker is not available: {0}")]
    Unavailable(String),
    /// The subscription was replaced, or the broker shut down.
    #[error("the subscription is closed")]
    Closed,
    /// The receipt is of a delivery that is over.
    #[error("the receipt is no longer valid")]
    Expired,
}

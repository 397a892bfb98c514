//! Delivery of dispatches. Messages are hints, never the source of truth: loss, duplication or reordering costs only
//! time [I4].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{DispatchSeq, JobId};
use crate::names::{Capability, FactoryId, ProductId, RepoName};
use crate::spec::Priority;
use crate::time::Timestamp;

/// How long a broker may take to answer a publish. After it the message may or may not have been published.
pub const PUBLISH_WITHIN: Duration = Duration::from_secs(2);

/// Delivers messages to factories.
#[async_trait]
pub trait Broker: Send + Sync {
    /// Publishes a message to its target. A message with an id that was already published is deduplicated. Answers within
    /// [`PUBLISH_WITHIN`], or is `Unavailable`.
    async fn publish(&self, message: Message) -> Result<PublishOutcome, BrokerError>;
    /// Opens the factory's queue. A new subscription replaces the previous one: its messages that were not completed
    /// are redelivered.
    async fn subscribe(&self, factory: &FactoryId) -> Result<Arc<dyn Subscription>, BrokerError>;
    /// Removes the queue of a factory that was removed, with its messages.
    async fn dismiss(&self, factory: &FactoryId) -> Result<(), BrokerError>;
    /// Number of messages that are not completed, of each factory that has some. One request, however many factories.
    async fn depths(&self) -> Result<BTreeMap<FactoryId, u64>, BrokerError>;
    /// Mirrors a dead-lettered job to the broker's dead-letter queue, for monitoring of the broker.
    async fn mirror_dead_letter(&self, message: Message, reason: &str) -> Result<(), BrokerError>;
    /// Messages in the dead-letter queue, newest last.
    async fn dead_letters(&self, limit: u16) -> Result<Vec<(Message, String)>, BrokerError>;
    /// Notes how a factory receives its messages. It is said with every heartbeat, and not stored.
    fn receives(&self, _factory: &FactoryId, _how: Receives) {}
    /// A login for a factory's own queue; `None` if factories cannot connect to this broker.
    async fn login(&self, _factory: &FactoryId, _now: Timestamp) -> Result<Option<BrokerLogin>, BrokerError> {
        Ok(None)
    }
}

/// How a factory receives its offers [D6].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Receives {
    /// Through its inbox at the coordinator.
    #[default]
    Inbox,
    /// From the broker, where it is connected. Its inbox stays open.
    Broker,
}

/// What a factory needs to connect to the broker: it opens the factory's own queue and nothing else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrokerLogin {
    /// The broker's address.
    pub url: String,
    /// The credentials, as the broker's clients read them. A secret.
    pub credentials: String,
    /// When they expire.
    pub until: Timestamp,
}

impl fmt::Debug for BrokerLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerLogin").field("url", &self.url).field("until", &self.until).finish_non_exhaustive()
    }
}

/// Connects a factory to the broker.
#[async_trait]
pub trait BrokerConnector: fmt::Debug + Send + Sync {
    /// Connects with a login.
    async fn connect(&self, factory: &FactoryId, login: &BrokerLogin) -> Result<Arc<dyn Broker>, BrokerError>;
}

/// An open queue of one factory.
#[async_trait]
pub trait Subscription: Send + Sync {
    /// Waits for the next message. Returns `Err(Closed)` once the subscription is replaced or the broker shuts down. A call
    /// that is cancelled loses no message.
    async fn receive(&self) -> Result<Delivery, BrokerError>;
    /// Completes a message: it is not delivered again.
    async fn complete(&self, receipt: &Receipt) -> Result<(), BrokerError>;
    /// Abandons a message: it is redelivered at once, or dead-lettered after too many deliveries.
    async fn abandon(&self, receipt: &Receipt) -> Result<(), BrokerError>;
    /// Dead-letters a message that cannot be processed.
    async fn dead_letter(&self, receipt: &Receipt, reason: &str) -> Result<(), BrokerError>;
}

/// A dispatch message: small, without the body, and without authority. All fields but the id are hints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The job.
    pub job_id: JobId,
    /// The dispatch.
    pub dispatch_seq: DispatchSeq,
    /// The product that owns the job.
    pub product_id: ProductId,
    /// The repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// The required capabilities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caps: Vec<Capability>,
    /// The job's priority.
    pub priority: Priority,
    /// The factory that the job is offered to.
    pub target_factory_id: FactoryId,
    /// Not an offer: the coordinator only compares whether and when it arrives. The receiver completes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shadow: bool,
}

impl Message {
    /// The id for deduplication.
    pub fn id(&self) -> MessageId {
        MessageId { job: self.job_id, seq: self.dispatch_seq, shadow: self.shadow }
    }
}

/// `jobId:dispatchSeq`. A retried publish keeps it; a new dispatch never reuses one [I5].
///
/// A shadow message has an id of its own, `jobId:dispatchSeq:s`: the first offer after a switch to push has the same
/// number and must not count as its duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The job.
    pub job: JobId,
    /// The dispatch.
    pub seq: DispatchSeq,
    /// Whether it is the message of a compared plan.
    pub shadow: bool,
}

impl MessageId {
    /// The message of an offer.
    pub fn of_offer(job: JobId, seq: DispatchSeq) -> Self {
        Self { job, seq, shadow: false }
    }

    /// The message of a compared plan.
    pub fn of_shadow(job: JobId, seq: DispatchSeq) -> Self {
        Self { job, seq, shadow: true }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.job, self.seq)?;
        if self.shadow { f.write_str(":s") } else { Ok(()) }
    }
}

/// The result of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishOutcome {
    /// The message will be delivered.
    Accepted,
    /// A message with this id was already published.
    Duplicate,
}

/// A delivered message with its receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The message.
    pub message: Message,
    /// Number of deliveries, including this one.
    pub attempt: u32,
    /// The receipt to complete it.
    pub receipt: Receipt,
}

/// Completes, abandons or dead-letters one delivery; not valid for later ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

/// An error of the broker.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The broker cannot be reached. The sweep retries.
    #[error("the broker is not available: {0}")]
    Unavailable(String),
    /// The subscription was replaced, or the broker shut down.
    #[error("the subscription is closed")]
    Closed,
    /// The receipt belongs to an earlier delivery.
    #[error("the receipt is no longer valid")]
    Expired,
}

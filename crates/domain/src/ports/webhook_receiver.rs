//! A receiver of outgoing webhooks.

use std::time::Duration;

use async_trait::async_trait;

/// Takes the webhooks of one address [T6][D4].
#[async_trait]
pub trait WebhookReceiver: Send + Sync {
    /// Sends a delivery. A repetition has the same id and body.
    async fn deliver(&self, delivery: &WebhookDelivery) -> Result<(), WebhookError>;

    /// The address without what may be secret in it: no path, no query.
    fn address(&self) -> String;
}

/// One message to a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookDelivery {
    /// Identifies the message: a receiver drops repetitions by it.
    pub id: String,
    /// `job.<stage>`, `alert.raised`, `alert.cleared` or `test`.
    pub event: String,
    /// The body, in JSON.
    pub body: String,
}

/// Why a delivery failed. Messages contain neither the path of the address nor the receiver's answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// A later attempt may succeed.
    #[error("{message}")]
    Retryable {
        /// The error.
        message: String,
        /// The end of a rate limit, if the receiver names one.
        wait: Option<Duration>,
    },
    /// The receiver rejects this body: a repetition would be rejected again.
    #[error("{0}")]
    Rejected(String),
}

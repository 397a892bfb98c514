//! A tracker whose items become jobs.

use std::time::Duration;

use async_trait::async_trait;

use crate::ids::JobId;
use crate::tracker::TrackerItem;

/// Shows the status of jobs at their items. One way: nothing is read back [T6].
#[async_trait]
pub trait ItemTracker: Send + Sync {
    /// Shows a job's status at its item. Idempotent: a repetition changes nothing, and never adds a second comment.
    async fn show_status(&self, item: &TrackerItem, status: &ItemStatus) -> Result<(), TrackerError>;
}

/// The status of a job for its item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemStatus {
    /// The job.
    pub job: JobId,
    /// The status, in Markdown.
    pub text: String,
    /// Whether the item is done and should be closed.
    pub is_done: bool,
}

/// Why a status could not be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrackerError {
    /// A later attempt may succeed.
    #[error("{message}")]
    Retryable {
        /// The tracker's error.
        message: String,
        /// The end of a rate limit, if the tracker names one.
        wait: Option<Duration>,
    },
    /// The item does not exist any more, or does not accept a status.
    #[error("{0}")]
    Gone(String),
}

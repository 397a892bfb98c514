//! Batches: items of one partition, written together, each under its own condition.

use super::database::{Document, Etag, RequestError};

/// Maximum number of writes in a batch.
pub const BATCH_OPS_MAX: usize = 100;

/// Maximum size of a batch in bytes.
pub const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;

/// One write of a batch.
#[derive(Debug, Clone)]
pub struct Op {
    /// The item's id within the partition.
    pub id: String,
    /// The precondition.
    pub condition: Condition,
    /// The new document.
    pub document: Document,
}

/// The precondition of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The item does not exist.
    Absent,
    /// The item has this etag.
    At(Etag),
    /// No precondition.
    Any,
}

/// Why a batch was not written, or may not have been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchError {
    /// The precondition of this write failed, or the batch writes its item twice; nothing was written. Over HTTP: 409 or
    /// 412 at this write, 424 at the others.
    Refused {
        /// Index of the write in the batch.
        at: usize,
    },
    /// The batch exceeds the database's limits; nothing was written. Over HTTP: 413.
    TooLarge,
    /// The request itself failed.
    Request(RequestError),
}

impl From<RequestError> for BatchError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

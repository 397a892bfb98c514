//! What is written together: items of one partition, each under its own condition.

use super::database::{Document, RequestError};

/// Writes that one batch may hold.
pub const BATCH_OPS_MAX: usize = 100;

/// Bytes that one batch may hold.
pub const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;

/// One write of a batch.
#[derive(Debug, Clone)]
pub struct Op {
    /// The item in the partition.
    pub id: String,
    /// What must be there.
    pub condition: Condition,
    /// What will be there.
    pub document: Document,
}

/// What must be there for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Absent,
    /// This version.
    At(u64),
    /// Whatever there is.
    Any,
}

/// Why a batch was not written, or may not have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchError {
    /// The condition of this write does not hold, or it is of an item that the batch writes before; nothing was written.
    Refused {
        /// Its place in the batch.
        at: usize,
    },
    /// There is more in it than the database takes at once; nothing was written.
    TooLarge,
    /// The request itself failed.
    Request(RequestError),
}

impl From<RequestError> for BatchError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

pub(super) fn check_size(ops: &[Op]) -> Result<(), BatchError> {
    let bytes: usize = ops.iter().map(|op| op.document.bytes()).sum();
    if ops.len() > BATCH_OPS_MAX || bytes > BATCH_BYTES_MAX { Err(BatchError::TooLarge) } else { Ok(()) }
}

//! Logs of engines, separate from jobs: large, append-only, not a source of truth.

use async_trait::async_trait;

use super::job_store::StoreError;
use crate::ids::{Epoch, JobId};

/// Logs of runs, by job and epoch.
#[async_trait]
pub trait LogStore: Send + Sync {
    /// Appends `chunk` at `offset` and returns the length of the log. Bytes before the end are skipped, so that a
    /// repeated chunk changes nothing. A chunk that would leave a gap is not written.
    async fn append(&self, job: JobId, epoch: Epoch, offset: u64, chunk: &[u8]) -> Result<u64, StoreError>;
    /// At most `limit` bytes from `offset`; empty at the end.
    async fn read(&self, job: JobId, epoch: Epoch, offset: u64, limit: u32) -> Result<Vec<u8>, StoreError>;
    /// The epochs with a log, in order, with their lengths.
    async fn logs(&self, job: JobId) -> Result<Vec<(Epoch, u64)>, StoreError>;
    /// Stores the evidence of a run beside its log. Replaces earlier evidence atomically.
    async fn keep_evidence(&self, job: JobId, epoch: Epoch, document: &[u8]) -> Result<(), StoreError>;
    /// The evidence of a run.
    async fn evidence(&self, job: JobId, epoch: Epoch) -> Result<Option<Vec<u8>>, StoreError>;
}

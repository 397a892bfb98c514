//! What engines print, kept apart from the jobs: big, append-only, and nobody's truth.

use async_trait::async_trait;

use super::job_store::StoreError;
use crate::ids::{Epoch, JobId};

/// Output of runs, by job and epoch.
#[async_trait]
pub trait LogStore: Send + Sync {
    /// Adds `chunk` at `offset` and answers with the length of the log. What lies before the end already is skipped, so
    /// that a repeated chunk changes nothing; a chunk that would leave a gap is refused by answering with the length.
    async fn append(&self, job: JobId, epoch: Epoch, offset: u64, chunk: &[u8]) -> Result<u64, StoreError>;
    /// At most `limit` bytes from `offset` on; empty at the end.
    async fn read(&self, job: JobId, epoch: Epoch, offset: u64, limit: u32) -> Result<Vec<u8>, StoreError>;
    /// The epochs that have a log, in order, with their lengths.
    async fn logs(&self, job: JobId) -> Result<Vec<(Epoch, u64)>, StoreError>;
    /// Keeps what backs a run beside its log, in the place of what was kept for it before: the whole of it, or nothing.
    async fn keep_evidence(&self, job: JobId, epoch: Epoch, document: &[u8]) -> Result<(), StoreError>;
    /// What was kept for a run.
    async fn evidence(&self, job: JobId, epoch: Epoch) -> Result<Option<Vec<u8>>, StoreError>;
}

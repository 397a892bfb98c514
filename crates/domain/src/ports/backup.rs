//! Online backups of a store.

use std::path::Path;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::job_store::StoreError;
use crate::ids::{Generation, Position};
use crate::time::Timestamp;

/// A store that supports backups. A backup is one SQLite file with the schema of the embedded store, so that any
/// backend can restore it.
#[async_trait]
pub trait Backup: Send + Sync {
    /// Writes a consistent snapshot of the store to a new file at `path`, verifies it and flushes it. Reads and writes
    /// continue. Only the owner can access the file; an existing file is an error.
    async fn back_up(&self, path: &Path, now: Timestamp) -> Result<BackupSummary, StoreError>;
}

/// Contents of a backup. Logs of engines are not included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupSummary {
    /// When the backup was taken; absent in a file copied by other means.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub taken_at: Option<Timestamp>,
    /// The generation of the store.
    pub generation: Generation,
    /// The schema version.
    pub schema: u32,
    /// Number of jobs, including ended ones.
    pub jobs: u64,
    /// Number of jobs that have not ended.
    pub open: u64,
    /// Number of events.
    pub events: u64,
    /// End of the event log.
    pub position: Position,
    /// Number of runs with evidence.
    #[serde(default)]
    pub evidence: u64,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
}

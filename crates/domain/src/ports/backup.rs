//! Copies of a whole store, taken while it works.

use std::path::Path;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::job_store::StoreError;
use crate::ids::{Generation, Position};
use crate::time::Timestamp;

/// A store that can be copied whole. Whatever the backend, a backup is one SQLite file with the schema of the embedded
/// store, so that a backup of one backend can be put back into another.
#[async_trait]
pub trait Backup: Send + Sync {
    /// Writes everything that the store holds, as of one moment, into a new file at `path`, checks the file and flushes it.
    /// Reads and writes go on meanwhile. The file is its owner's alone; one that is already there is an error.
    async fn back_up(&self, path: &Path, now: Timestamp) -> Result<BackupSummary, StoreError>;
}

/// What is in a backup. What engines printed is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupSummary {
    /// When it was taken; absent in a copy that somebody made by other means.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub taken_at: Option<Timestamp>,
    /// How often the store had been put back from a backup itself.
    pub generation: Generation,
    /// The number of its schema.
    pub schema: u32,
    /// Jobs, ended ones included.
    pub jobs: u64,
    /// Jobs that have not ended.
    pub open: u64,
    /// Events.
    pub events: u64,
    /// Where its log ends.
    pub position: Position,
    /// Runs whose evidence is in it.
    #[serde(default)]
    pub evidence: u64,
    /// How long the file is.
    pub bytes: u64,
    /// The digest of the file.
    pub sha256: String,
}

//! Backup and restore.

use domain::{BackupSummary, Generation};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Response header with the [`BackupSummary`] of a backup as JSON.
pub const SUMMARY_HEADER: &str = "x-backup-summary";

/// The required value of `?replace=` for a restore.
pub const REPLACE_EVERYTHING: &str = "everything";

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreSummary {
    /// The restored backup.
    pub backup: BackupSummary,
    /// The new generation of the store. Leases of the lost history are fenced.
    pub generation: Generation,
    /// File or database schema that keeps the replaced data; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// Consequences of the restore, for the operator.
    pub notice: String,
}

impl RestoreSummary {
    /// The notice for every restore.
    pub fn notice(backup: &BackupSummary) -> String {
        let as_of = backup.taken_at.map_or_else(String::new, |at| format!(" of {at}"));
        format!(
            "everything is as of the backup{as_of}, including tokens: revoke tokens that were revoked since, and enrol \
             factories that joined since. Running jobs start again"
        )
    }
}

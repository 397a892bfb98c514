//! Backups of the whole fleet, and what putting one back comes to.

use domain::{BackupSummary, Generation};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The header of a backup that says what is in it: a [`BackupSummary`] as JSON.
pub const SUMMARY_HEADER: &str = "x-backup-summary";

/// What must stand behind `?replace=` for a restore to happen.
pub const REPLACE_EVERYTHING: &str = "everything";

/// What a restore comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreSummary {
    /// What was put back.
    pub backup: BackupSummary,
    /// The generation that the store is in from now on: whoever knew the lost future is fenced.
    pub generation: Generation,
    /// The name of the file, or of the schema in the database, that holds what was replaced; there was nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// What people must know about it.
    pub notice: String,
}

impl RestoreSummary {
    /// What is true of every restore, in words.
    pub fn notice(backup: &BackupSummary) -> String {
        let as_of = backup.taken_at.map_or_else(String::new, |at| format!(" of {at}"));
        format!(
            "everything is as of the backup{as_of}, tokens too: revoke again what was revoked since, and enrol again the \
             factories that joined since. Work that was under way begins again"
        )
    }
}

//! Merge conflicts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::{BranchName, CommitSha};

/// Maximum number of files listed for one conflict.
pub const CONFLICT_FILES_MAX: usize = 100;

/// A merge conflict: the completed commit and the base branch changed the same lines. Nothing was merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MergeConflict {
    /// The base branch.
    pub base: BranchName,
    /// The commit of the base branch in the failed merge.
    pub base_sha: CommitSha,
    /// The files in conflict, at most 100. Empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

impl std::fmt::Display for MergeConflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = self.base_sha.as_str().get(..12).unwrap_or(self.base_sha.as_str());
        write!(f, "merge conflict with `{}` at {short}", self.base)?;
        if self.files.is_empty() { Ok(()) } else { write!(f, " in {}", self.files.join(", ")) }
    }
}

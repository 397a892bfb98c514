//! What a parent's run is told about a child [J4].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::JobId;
use crate::names::CommitSha;
use crate::stage::StageName;

/// Children that a run is told about.
pub const CHILD_RESULTS_MAX: usize = 50;

/// Length of a child's summary.
pub const CHILD_SUMMARY_CHARS_MAX: usize = 1_000;

/// The result of a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildResult {
    /// The child.
    pub id: JobId,
    /// Title.
    pub title: String,
    /// The stage that it ended in.
    pub stage: StageName,
    /// The commit that it completed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitSha>,
    /// The branch of that commit, by the name that the factory uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Its pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<String>,
    /// The final message of its last run's agent, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

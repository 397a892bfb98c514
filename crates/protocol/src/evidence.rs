//! Evidence of a run beyond its report [B4].

use domain::{CommitSha, EngineName, Epoch, Evidence, RunInsights, RunOutcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Maximum size of a stored diff; a larger one is truncated. JSON may escape a byte into six, and a report is limited
/// to 4 MiB.
pub const DIFF_BYTES_MAX: usize = 512 * 1024;

/// Evidence of a run, sent by its holder. The last one per run counts; long fields are truncated and marked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EvidenceReport {
    /// The epoch of the run, also after its completion.
    pub lease_epoch: Epoch,
    /// The diff from the base to the run's commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Whether the diff is truncated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub diff_cut: bool,
    /// The commits, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<CommitLine>,
    /// The engine's final message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// Tool calls that were denied to the agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Further branches with commits of the agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_branches: Vec<LeftBranch>,
}

/// A branch with commits of the agent that are not part of its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftBranch {
    /// The agent's name for the branch.
    pub name: String,
    /// Its last commit.
    pub sha: CommitSha,
    /// The remote branch that keeps the commit.
    pub git_ref: String,
}

/// One commit of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitLine {
    /// The commit.
    pub sha: CommitSha,
    /// The first line of its message.
    pub subject: String,
}

/// The answer to evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceResponse {
    /// Stored size in bytes.
    pub length: u64,
}

/// All evidence of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunEvidence {
    /// The run's number among the job's runs.
    pub run: u32,
    /// Its epoch.
    pub epoch: Epoch,
    /// The engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineName>,
    /// The outcome; absent while the run is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
    /// The resulting commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<CommitSha>,
    /// The verify commands with their results.
    pub verify: Vec<Evidence>,
    /// The diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Whether the diff is truncated.
    #[serde(default)]
    pub diff_cut: bool,
    /// The commits, oldest first.
    pub commits: Vec<CommitLine>,
    /// The engine's final message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// Tool calls that were denied to the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Further branches with commits of the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_branches: Vec<LeftBranch>,
    /// Cost and size of the change.
    pub insights: RunInsights,
}

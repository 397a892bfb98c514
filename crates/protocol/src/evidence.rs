//! What backs the claim that a run is done, beyond what its report carries [B4].

use domain::{CommitSha, EngineName, Epoch, Evidence, RunInsights, RunOutcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The change of one run that is kept; a larger one is read in the repository. Each byte can travel as six, and a report
/// may have 4 MiB.
pub const DIFF_BYTES_MAX: usize = 512 * 1024;

/// What a holder shows for its run. The last one sent for a run counts; what is too long is cut, and said to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EvidenceReport {
    /// The fence: the epoch of the run, also after its completion.
    pub lease_epoch: Epoch,
    /// The change as a patch, from the base to the run's commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Whether the patch was cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub diff_cut: bool,
    /// The commits, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<CommitLine>,
    /// The engine's own last words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// Tool calls that the agent was refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Branches that the agent left commits on, beside the work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_branches: Vec<LeftBranch>,
}

/// A branch that an agent left commits on which are not part of its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftBranch {
    /// What the agent called it.
    pub name: String,
    /// Its last commit.
    pub sha: CommitSha,
    /// The branch of the remote that keeps the commit.
    pub git_ref: String,
}

/// One commit, in a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitLine {
    /// The commit.
    pub sha: CommitSha,
    /// Its first line.
    pub subject: String,
}

/// The answer to evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceResponse {
    /// How much of it is kept, in bytes.
    pub length: u64,
}

/// Everything that backs one run.
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
    /// How it ended; absent while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
    /// The commit that it produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<CommitSha>,
    /// The verify commands and what came of them.
    pub verify: Vec<Evidence>,
    /// The change as a patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Whether the patch was cut.
    #[serde(default)]
    pub diff_cut: bool,
    /// The commits, oldest first.
    pub commits: Vec<CommitLine>,
    /// The engine's own last words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// Tool calls that the agent was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Branches that the agent left commits on, beside the work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_branches: Vec<LeftBranch>,
    /// What it cost and what it changed.
    pub insights: RunInsights,
}

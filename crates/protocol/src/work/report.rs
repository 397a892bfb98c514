//! What a holder says about its run, and what it hears.

use domain::{
    Checkpoint, CommitSha, EngineName, Epoch, Evidence, FailureReason, JobId, MergeConflict, PullRequest, Retryability,
    RunInsights, StageName, Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::accept::PromoteOrder;

/// Says that the engine is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartReport {
    /// The fence.
    pub lease_epoch: Epoch,
    /// The engine.
    pub engine: EngineName,
}

/// Says that the work is done, verified and pushed to the run's own ref.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompletionReport {
    /// The fence.
    pub lease_epoch: Epoch,
    /// The commit; none when the job has no repository or changed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<CommitSha>,
    /// What it cost and changed.
    #[serde(default)]
    pub insights: RunInsights,
    /// What backs it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// The engine's own ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the next run goes on from, should the work be sent back: the commit and the engine's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// The text for the pull request, for whoever will open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_text: Option<String>,
}

/// The answer to a completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompletionResponse {
    /// Where the job is now.
    pub stage: StageName,
    /// The right to move the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promote: Option<PromoteOrder>,
}

/// Says what became of a promotion or a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrandReport {
    /// The fence that came with the order.
    pub lease_epoch: Epoch,
    /// How it went.
    pub outcome: ErrandOutcome,
    /// The pull request that is open for the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequest>,
    /// The shipped job whose merge changed the files in conflict last, if the base branch names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts_with: Option<JobId>,
}

/// How a promotion or a merge went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "result")]
pub enum ErrandOutcome {
    /// It is done.
    Done,
    /// It did not work; another try may.
    Failed {
        /// Why.
        message: String,
    },
    /// It cannot be done yet, through nobody's fault: checks are still running, or the forge wants to be left alone.
    #[serde(rename_all = "camelCase")]
    PutOff {
        /// What it waits for.
        message: String,
        /// How long to leave it.
        retry_after_ms: u64,
    },
    /// It cannot work: the branch was moved by somebody else, or the merge conflicts.
    Impossible {
        /// Why.
        message: String,
        /// The conflict, if that is the reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conflict: Option<MergeConflict>,
    },
}

/// Says that the attempt failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureReport {
    /// The fence.
    pub lease_epoch: Epoch,
    /// Why.
    pub reason: FailureReason,
    /// Whether another attempt may end differently; if not, the job goes to a person at once.
    #[serde(default, skip_serializing_if = "Retryability::is_worthwhile")]
    pub again: Retryability,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Work saved on the way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// What it cost.
    #[serde(default)]
    pub insights: RunInsights,
    /// What backs it: the command that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// Whether the agent finished without changing any file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_changes: bool,
}

/// The coordinator's answer to a failure: it alone decides what follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureResponse {
    /// Where the job is now.
    pub stage: StageName,
    /// The end of the backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
}

/// Parks a job on a question to a person [B6]. Lease and seat come free, and no attempt is counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionReport {
    /// The fence.
    pub lease_epoch: Epoch,
    /// What the agent wants to know.
    pub question: String,
    /// Work saved on the way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// What it cost until then.
    #[serde(default)]
    pub insights: RunInsights,
}

/// Gives a job back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseReport {
    /// The fence.
    pub lease_epoch: Epoch,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Work saved on the way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// What it cost until then.
    #[serde(default)]
    pub insights: RunInsights,
}

/// A fenced change of a job by its holder: to `building`, or saved work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Patch {
    /// The fence.
    pub lease_epoch: Epoch,
    /// The stage to go to; `building` is the only one a holder can ask for in this way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageName>,
    /// The engine, with `building`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineName>,
    /// Saved work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

/// Where a job is after a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageResponse {
    /// The stage.
    pub stage: StageName,
    /// The fence.
    pub lease_epoch: Epoch,
}

/// The answer to a chunk of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppendLogResponse {
    /// Where the next chunk goes.
    pub length: u64,
}

//! Reports of a holder about its run, and their answers.

use domain::{
    Checkpoint, CommitSha, EngineName, Epoch, Evidence, FailureReason, JobId, MergeConflict, PullRequest, Retryability,
    RunInsights, StageName, Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::accept::PromoteOrder;

/// Reports that the engine started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartReport {
    /// The epoch of the lease.
    pub lease_epoch: Epoch,
    /// The engine.
    pub engine: EngineName,
}

/// Reports that the work is completed, verified and pushed to the run's own ref.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompletionReport {
    /// The epoch of the lease.
    pub lease_epoch: Epoch,
    /// The commit; absent if the job has no repository or no changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<CommitSha>,
    /// Cost and size of the change.
    #[serde(default)]
    pub insights: RunInsights,
    /// Results of the prepare and verify commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// The engine's final message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The checkpoint for a rework: the commit and the engine's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Text for the pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_text: Option<String>,
}

/// The answer to a completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompletionResponse {
    /// The job's stage.
    pub stage: StageName,
    /// The lease for the promotion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promote: Option<PromoteOrder>,
}

/// Reports the outcome of a promotion or merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrandReport {
    /// The epoch of the order.
    pub lease_epoch: Epoch,
    /// The outcome.
    pub outcome: ErrandOutcome,
    /// The open pull request of the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequest>,
    /// The shipped job whose merge last changed the files in conflict, if the base branch names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts_with: Option<JobId>,
}

/// The outcome of a promotion or merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "result")]
pub enum ErrandOutcome {
    /// Success.
    Done,
    /// A retryable failure.
    Failed {
        /// The error.
        message: String,
    },
    /// Postponed, not a failure: checks are still running, or the forge is rate-limiting.
    #[serde(rename_all = "camelCase")]
    PutOff {
        /// The obstacle.
        message: String,
        /// Delay before the retry.
        retry_after_ms: u64,
    },
    /// A failure that is not retryable: the branch was moved outside the fleet, or the merge conflicts.
    Impossible {
        /// The error.
        message: String,
        /// The merge conflict, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conflict: Option<MergeConflict>,
    },
}

/// Reports a failed attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureReport {
    /// The epoch of the lease.
    pub lease_epoch: Epoch,
    /// The reason.
    pub reason: FailureReason,
    /// Whether a retry may succeed; if not, the job fails at once.
    #[serde(default, skip_serializing_if = "Retryability::may_succeed_on_retry")]
    pub again: Retryability,
    /// Details for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Saved work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Cost of the run.
    #[serde(default)]
    pub insights: RunInsights,
    /// Results of the commands, including the failed one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// Whether the agent finished without changing any file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_changes: bool,
}

/// The coordinator's retry decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureResponse {
    /// The job's stage.
    pub stage: StageName,
    /// The end of the backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
}

/// Blocks a job on a question [B6]. Frees lease and seat, and counts no attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionReport {
    /// The epoch of the lease.
    pub lease_epoch: Epoch,
    /// The agent's question.
    pub question: String,
    /// Saved work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Cost of the run.
    #[serde(default)]
    pub insights: RunInsights,
}

/// Releases a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseReport {
    /// The epoch of the lease.
    pub lease_epoch: Epoch,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Saved work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Cost of the run.
    #[serde(default)]
    pub insights: RunInsights,
}

/// A fenced change of a job by its holder: to `building`, or a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Patch {
    /// The epoch of the lease.
    pub lease_epoch: Epoch,
    /// The new stage; a holder can only set `building`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageName>,
    /// The engine, with `building`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineName>,
    /// Saved work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

/// The job's state after a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageResponse {
    /// The stage.
    pub stage: StageName,
    /// The current epoch.
    pub lease_epoch: Epoch,
}

/// The answer to a log chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppendLogResponse {
    /// Length of the log: the offset of the next chunk.
    pub length: u64,
}

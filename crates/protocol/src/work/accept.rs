//! Accepting a dispatch: the lease and the assignment.

use domain::{
    BranchName, Checkpoint, ChildResult, ClaimNonce, CommitSha, DispatchSeq, EngineName, Epoch, ErrandKind, FactoryId,
    InstanceId, JobId, MergeConflict, PreviousRun, ProductId, PullRequest, RepoName, Spec, TotalSpend,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Accepts a dispatch. A repeated request with the same nonce gets the same answer [I6].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptRequest {
    /// The job.
    pub job_id: JobId,
    /// The dispatch.
    pub dispatch_seq: DispatchSeq,
    /// Random per attempt. The factory persists it.
    pub claim_nonce: ClaimNonce,
    /// The process that will do the work.
    pub instance: InstanceId,
    /// Must match the token's factory, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factory_id: Option<FactoryId>,
}

/// Declines a dispatch, so that the coordinator offers the job to another factory at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeclineRequest {
    /// The job.
    pub job_id: JobId,
    /// The dispatch.
    pub dispatch_seq: DispatchSeq,
    /// The process that declines.
    pub instance: InstanceId,
    /// The reason.
    pub reason: DeclineReason,
    /// Details for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Why a factory declines a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeclineReason {
    /// The factory has no free seat.
    Busy,
    /// The factory is stopping or draining.
    Stopping,
    /// An error on the factory; see the message.
    Fault,
}

impl DeclineReason {
    /// The reason, phrased to follow a factory's name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Busy => "has no free seat",
            Self::Stopping => "is stopping",
            Self::Fault => "cannot take work",
        }
    }
}

/// The lease and the assignment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptResponse {
    /// The epoch of the lease, required with every write.
    pub lease_epoch: Epoch,
    /// Duration of the lease, measured from before the request was sent.
    pub lease_ttl_ms: u64,
    /// The assigned work.
    pub assignment: Assignment,
}

/// The work that a holder gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// The job.
    pub job_id: JobId,
    /// The product that owns the job.
    pub product_id: ProductId,
    /// The repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// The base branch; the repository's default branch when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BranchName>,
    /// The engine whose seat the job uses; others may be unavailable. The factory chooses only if this is absent, or if
    /// another engine started the session of a job that names no engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineName>,
    /// Number of failed attempts.
    pub attempts: u32,
    /// Cost of earlier runs, and what subtasks have cost or have reserved: the job's budget covers all of these.
    #[serde(default, skip_serializing_if = "TotalSpend::is_nothing")]
    pub spent: TotalSpend,
    /// The parsed manifest.
    pub spec: Spec,
    /// The manifest; empty for an errand.
    pub body_md: String,
    /// The text of the job's profile, which precedes the prompt; absent for an errand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Saved work to resume from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Changes to make to the completed work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<String>,
    /// The question of an earlier run, with the user's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The merge conflict to resolve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<MergeConflict>,
    /// An operator's message for this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How the last run with an engine ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_run: Option<PreviousRun>,
    /// The children that ran before this job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildResult>,
    /// Whether its agent can create subtasks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_create_subtasks: bool,
    /// The promotion or merge, if this is an errand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errand: Option<PromoteOrder>,
}

impl Assignment {
    /// The engines to try, in order: the one whose seat the job uses, then those that the job names; any when empty.
    pub fn engines(&self) -> Vec<EngineName> {
        let mut engines: Vec<EngineName> = self.engine.iter().cloned().collect();
        engines.extend(self.spec.engines.iter().filter(|named| self.engine.as_ref() != Some(named)).cloned());
        engines
    }
}

/// The lease for a promotion or merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromoteOrder {
    /// Promotion or merge.
    pub kind: ErrandKind,
    /// The epoch for the report.
    pub lease_epoch: Epoch,
    /// The recorded commit.
    pub sha: CommitSha,
    /// Commits that the branch may point at before.
    pub acceptable: Vec<CommitSha>,
    /// The last reported head of the branch; absent before the first promotion, when the branch may not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted: Option<CommitSha>,
    /// The epoch of the run whose ref points at the commit.
    pub run_epoch: Epoch,
    /// The pull request, if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequest>,
    /// Text for the pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_text: Option<String>,
}

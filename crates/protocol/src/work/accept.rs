//! The lease on a job, and everything that its holder needs.

use domain::{
    BranchName, Checkpoint, ClaimNonce, CommitSha, DispatchSeq, EngineName, Epoch, ErrandKind, FactoryId, InstanceId,
    JobId, MergeConflict, PreviousRun, ProductId, PullRequest, RepoName, Spec, TotalSpend,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Takes a dispatch. The same nonce asks for the same answer again [I6].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptRequest {
    /// The job.
    pub job_id: JobId,
    /// The dispatch.
    pub dispatch_seq: DispatchSeq,
    /// Random per attempt, kept on the factory's disk.
    pub claim_nonce: ClaimNonce,
    /// The process that will work on it.
    pub instance: InstanceId,
    /// Must be the token's own, when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factory_id: Option<FactoryId>,
}

/// Declines a dispatch, so that the coordinator can offer the job elsewhere at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeclineRequest {
    /// The job.
    pub job_id: JobId,
    /// The dispatch.
    pub dispatch_seq: DispatchSeq,
    /// The process that declines.
    pub instance: InstanceId,
    /// Why.
    pub reason: DeclineReason,
    /// More about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Why a factory declines a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeclineReason {
    /// It has no seat for it now.
    Busy,
    /// It is stopping or draining.
    Stopping,
    /// Something on the factory is broken; the message says what.
    Fault,
}

impl DeclineReason {
    /// The reason as it follows a factory's name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Busy => "has no free seat",
            Self::Stopping => "is stopping",
            Self::Fault => "cannot take work",
        }
    }
}

/// The lease, and everything needed to work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptResponse {
    /// The fence: to be shown with every write.
    pub lease_epoch: Epoch,
    /// How long the lease lasts from before the request was sent, unless renewed.
    pub lease_ttl_ms: u64,
    /// What to do.
    pub assignment: Assignment,
}

/// A job as its holder needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// The job.
    pub job_id: JobId,
    /// Whose it is.
    pub product_id: ProductId,
    /// The repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// The branch to start from; the repository's own default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BranchName>,
    /// The engine whose seat it takes: the others may be resting. The factory chooses by itself only where this is absent, or where another has begun the conversation of a job that names no engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineName>,
    /// How many attempts failed before.
    pub attempts: u32,
    /// What earlier runs have cost: the job's budget is for all of them together.
    #[serde(default, skip_serializing_if = "TotalSpend::is_nothing")]
    pub spent: TotalSpend,
    /// What the job asks for.
    pub spec: Spec,
    /// The manifest; empty for an errand.
    pub body_md: String,
    /// Saved work to resume from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// What has to be changed about the work that was completed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<String>,
    /// The question that an earlier run asked, and a person's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The merge conflict that the work has to be reworked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<MergeConflict>,
    /// An operator's message for this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How the last run with an engine ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_run: Option<PreviousRun>,
    /// The branch or merge to make instead of work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errand: Option<PromoteOrder>,
}

impl Assignment {
    /// The engines to try, in order: the one whose seat the job takes, then those that the job names; any when empty.
    pub fn engines(&self) -> Vec<EngineName> {
        let mut engines: Vec<EngineName> = self.engine.iter().cloned().collect();
        engines.extend(self.spec.engines.iter().filter(|named| self.engine.as_ref() != Some(named)).cloned());
        engines
    }
}

/// The right to move the pull request's branch, or to merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromoteOrder {
    /// Which of the two.
    pub kind: ErrandKind,
    /// The fence for the report.
    pub lease_epoch: Epoch,
    /// The recorded commit.
    pub sha: CommitSha,
    /// Commits that the branch may show before.
    pub acceptable: Vec<CommitSha>,
    /// What the branch showed last, by what was reported; absent before the first promotion, when there may be no branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted: Option<CommitSha>,
    /// The run whose ref holds the commit.
    pub run_epoch: Epoch,
    /// The pull request, when there is one already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequest>,
    /// The text for the pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_text: Option<String>,
}

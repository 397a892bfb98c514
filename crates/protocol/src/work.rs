//! What a factory says and hears about the jobs it works on.

use domain::{
    BranchName, Checkpoint, ClaimNonce, CommitSha, DispatchSeq, EngineName, Epoch, ErrandKind, Evidence, FactoryId,
    FailureReason, Flags, Insights, InstanceId, JobId, Message, ProductId, PullRequest, RepoName, Spec, Spent,
    StageName, Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::feedback::LookOrder;
use crate::problem::Problem;
use crate::progress::Holding;
use crate::quota::{QuotaAnswer, QuotaWork};

/// Takes a dispatch. The same nonce asks for the same answer again [I6].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Accept {
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

/// The lease, and everything needed to work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
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
    /// The engine whose seat it takes: the others may be resting, and its own choice is the factory's only where this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineName>,
    /// How many attempts failed before.
    pub attempts: u32,
    /// What earlier runs have cost: the job's budget is for all of them together.
    #[serde(default, skip_serializing_if = "Spent::is_nothing")]
    pub spent: Spent,
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

/// Says that the engine is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartWork {
    /// The fence.
    pub lease_epoch: Epoch,
    /// The engine.
    pub engine: EngineName,
}

/// Says that the work is done, verified and pushed to the run's own ref.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompleteWork {
    /// The fence.
    pub lease_epoch: Epoch,
    /// The commit; none when the job has no repository or changed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<CommitSha>,
    /// What it cost and changed.
    #[serde(default)]
    pub insights: Insights,
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
pub struct Completed {
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
}

/// How a promotion or a merge went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "result")]
pub enum ErrandOutcome {
    /// It is done.
    Done,
    /// It did not work; another try may.
    Failed {
        /// Why.
        message: String,
    },
    /// It cannot be done yet, through nobody's fault: checks are still running, or the forge wants to be left alone.
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
    },
}

/// Says that the attempt failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailWork {
    /// The fence.
    pub lease_epoch: Epoch,
    /// Why.
    pub reason: FailureReason,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Work saved on the way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// What it cost.
    #[serde(default)]
    pub insights: Insights,
    /// What backs it: the verify command that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

/// The coordinator's answer to a failure: it alone decides what follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// Where the job is now.
    pub stage: StageName,
    /// The end of the backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
}

/// Gives a job back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseWork {
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
    pub insights: Insights,
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
pub struct StageAnswer {
    /// The stage.
    pub stage: StageName,
    /// The fence.
    pub lease_epoch: Epoch,
}

/// Renews everything that one process holds, in one call [§6.4].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Renew {
    /// The process.
    pub instance: InstanceId,
    /// What it holds. What it leaves out twice is taken from it.
    pub held: Vec<Holding>,
    /// How busy the machine is: 1 is all it can do.
    #[serde(default)]
    pub load: f64,
    /// Free space where worktrees live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
}

/// One job that a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// The job.
    pub job_id: JobId,
    /// The fence.
    pub lease_epoch: Epoch,
}

/// The answer to a renewal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Renewed {
    /// How long the renewed leases last, from before the request was sent.
    pub lease_ttl_ms: u64,
    /// What the process no longer holds: to be stopped now.
    pub lost: Vec<Held>,
    /// What it should do.
    pub directives: Vec<Directive>,
    /// How work reaches the factory: what it has to ask for.
    #[serde(default)]
    pub modes: Flags,
}

/// What a coordinator asks of a factory; also pushed through the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "do")]
pub enum Directive {
    /// Stop work on a job: an operator cancelled it, or it belongs to somebody else.
    Cancel {
        /// The job.
        job_id: JobId,
        /// The epoch that is over.
        lease_epoch: Epoch,
    },
    /// Save the work and give the job back.
    Preempt {
        /// The job.
        job_id: JobId,
        /// The fence.
        lease_epoch: Epoch,
    },
    /// Look at a job's pull request, and say what is there.
    Look(LookOrder),
    /// Take nothing new.
    Drain,
    /// Take work again.
    Resume,
}

/// What comes through a factory's inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "event", content = "data")]
pub enum InboxEvent {
    /// The stream is open.
    Hello {
        /// How work reaches the factory: what it has to ask for.
        #[serde(default)]
        modes: Flags,
    },
    /// Work reaches the factory in other ways than before.
    Modes(Flags),
    /// A job is offered.
    Dispatch(Message),
    /// Something is asked.
    Directive(Directive),
}

/// Many operations in one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Work {
    /// At most 1,000; done side by side, answered in order.
    pub operations: Vec<WorkOperation>,
}

/// One operation of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "do")]
#[expect(missing_docs, reason = "each field is the request that the single route takes")]
pub enum WorkOperation {
    /// `POST /accept`
    Accept {
        #[serde(flatten)]
        request: Accept,
    },
    /// `POST /jobs/:id/start`
    Start {
        job_id: JobId,
        #[serde(flatten)]
        request: StartWork,
    },
    /// `PATCH /jobs/:id` with a checkpoint
    Patch {
        job_id: JobId,
        #[serde(flatten)]
        request: Patch,
    },
    /// `POST /jobs/:id/complete`
    Complete {
        job_id: JobId,
        #[serde(flatten)]
        request: CompleteWork,
    },
    /// `POST /jobs/:id/promote`
    Promote {
        job_id: JobId,
        #[serde(flatten)]
        request: ErrandReport,
    },
    /// `POST /fail`
    Fail {
        job_id: JobId,
        #[serde(flatten)]
        request: FailWork,
    },
    /// `POST /jobs/:id/quota`
    Quota {
        job_id: JobId,
        #[serde(flatten)]
        request: QuotaWork,
    },
    /// `POST /jobs/:id/lease/release`
    Release {
        job_id: JobId,
        #[serde(flatten)]
        request: ReleaseWork,
    },
}

/// The answers, in the order of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkAnswer {
    /// One for each operation.
    pub results: Vec<WorkResult>,
}

/// What became of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkResult {
    /// The status that the single route would have answered with.
    pub status: u16,
    /// Its answer.
    #[serde(flatten)]
    pub outcome: WorkOutcome,
}

/// The answer of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum WorkOutcome {
    /// To `accept`.
    Accepted(Box<Accepted>),
    /// To `start`, `patch`, `promote` and `release`.
    Stage(StageAnswer),
    /// To `complete`.
    Completed(Completed),
    /// To `fail`.
    Failed(Failed),
    /// To `quota`.
    Quota(QuotaAnswer),
    /// It was refused.
    Problem(Box<Problem>),
}

/// The answer to a chunk of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogAppended {
    /// Where the next chunk goes.
    pub length: u64,
}

//! Jobs as people and programs see them.

use domain::{
    BlockedOn, BranchName, Capability, Checkpoint, CommitSha, DispatchSeq, EngineName, Epoch, ErrandKind, EventSeq,
    FactoryId, FailureReason, Job, JobEvent, JobId, JobLabel, Kind, MergeFailure, Priority, ProductId, PullRequest,
    RepoName, Revision, Run, Spec, Stage, StageName, Tag, Timestamp, TotalSpend,
};
use scheduler::Explanation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::factories::Presence;
use crate::problem::Problem;
use crate::progress::Progress;

/// One job to submit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubmitRequest {
    /// The manifest: Markdown with YAML front matter.
    pub body_md: String,
    /// The same key gives back the same job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The product, where the manifest names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_id: Option<ProductId>,
    /// Unknown keys are errors.
    #[serde(default)]
    pub strict: bool,
}

/// The answer to a submit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubmitResponse {
    /// The job as it was written down.
    pub job: JobView,
    /// Whether this call wrote it; `false` when the idempotency key had done so before, or on a dry run.
    pub created: bool,
    /// What the manifest might have meant otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<domain::Finding>,
    /// Where it can run, at once [I9].
    pub forecast: Explanation,
}

/// Many jobs to submit, each with its own outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchRequest {
    /// At most 1,000.
    pub jobs: Vec<SubmitRequest>,
}

/// The outcomes, in the order of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchResponse {
    /// One for each job.
    pub outcomes: Vec<BatchOutcome>,
}

/// What became of one job of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchOutcome {
    /// The job's id, when it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<JobId>,
    /// Its stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageName>,
    /// Whether this call wrote it.
    #[serde(default)]
    pub created: bool,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// Whose it is.
    pub product_id: ProductId,
    /// One line for people.
    pub title: String,
    /// Where it is.
    pub stage: StageName,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailureReason>,
    /// The latest word on why it is where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What its agent wants to know: it waits for a person's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// How urgent it is.
    pub priority: Priority,
    /// Whether it is work itself or follows its children.
    pub kind: Kind,
    /// The repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// The branch it starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BranchName>,
    /// What it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    /// Engines that may run it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineName>,
    /// The jobs it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deps: Vec<JobId>,
    /// Labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// The revision: what `If-Match` compares.
    pub rev: Revision,
    /// The fence.
    pub lease_epoch: Epoch,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_factory_id: Option<FactoryId>,
    /// To whom it was offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_factory_id: Option<FactoryId>,
    /// The number of its latest dispatch.
    pub dispatch_seq: DispatchSeq,
    /// Failed attempts that count towards the retry limit. A failure that is final is not one, and `requeue` resets it.
    pub attempts: u32,
    /// Leases that expired under it.
    pub lost_leases: u32,
    /// The end of the backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Saved work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// The commit that was completed and verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_sha: Option<CommitSha>,
    /// Whether verify commands ran on the completed work, and passed.
    #[serde(default)]
    pub verified: bool,
    /// The promotion or merge that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_failure: Option<MergeFailure>,
    /// What a queued job, or one that is blocked on its dependencies, waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<JobWait>,
    /// The dependency that failed and that a blocked job waits for all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_dependency: Option<JobId>,
    /// A dead letter that a person took off the list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dismissed: bool,
    /// The commit that the pull request's branch shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted_sha: Option<CommitSha>,
    /// Its pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequest>,
    /// The promotion or merge that is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errand: Option<ErrandKind>,
    /// The one factory that may run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<FactoryId>,
    /// The run that is going on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// How many runs it had.
    pub runs: u32,
    /// What those that ended have cost together.
    #[serde(default, skip_serializing_if = "TotalSpend::is_nothing")]
    pub spent: TotalSpend,
    /// The key it was submitted under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The number of its latest event.
    pub seq: EventSeq,
    /// Who submitted it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// What a job waits for before a factory gets it, or its promotion or merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobWait {
    /// A stable word for programs: `dependencies`, or the code of the scheduler's reason.
    pub code: String,
    /// In words, with the remedy.
    pub text: String,
    /// Whether a person has to act: no seat that becomes free, and no retry, will help.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unplaceable: bool,
    /// When what it waits for is tried again, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

impl JobView {
    /// Its short id and its title, for messages.
    pub fn label(&self) -> JobLabel<'_> {
        self.id.titled(&self.title)
    }

    /// The view of a job at a revision.
    pub fn of(job: &Job, rev: Revision) -> Self {
        let spec = job.spec();
        Self {
            id: job.id(),
            product_id: job.product().clone(),
            title: spec.title.clone(),
            stage: job.stage().name(),
            reason: match job.stage() {
                Stage::Failed { reason } | Stage::DeadLetter { reason } => Some(*reason),
                _ => None,
            },
            message: job.message().map(str::to_owned),
            question: match job.stage() {
                Stage::Blocked { on: BlockedOn::Question(question) } => Some(question.clone()),
                _ => None,
            },
            priority: job.priority(),
            kind: spec.kind,
            repo: spec.repo.clone(),
            base: spec.base.clone(),
            capabilities: spec.capabilities.clone(),
            engines: spec.engines.clone(),
            deps: job.submission().deps.clone(),
            tags: spec.tags.clone(),
            rev,
            lease_epoch: job.epoch(),
            holder_factory_id: job.seat().map(|lease| lease.factory.clone()),
            target_factory_id: job.dispatch().map(|dispatch| dispatch.target.clone()),
            dispatch_seq: job.dispatch_seq(),
            attempts: job.attempts(),
            lost_leases: job.lost_leases(),
            not_before: job.not_before(),
            checkpoint: job.checkpoint().cloned(),
            completed_sha: job.completed().cloned(),
            verified: job.is_verified(),
            merge_failure: job.merge_failure(),
            waiting: None,
            failed_dependency: job.failed_dependency(),
            dismissed: job.is_dismissed(),
            promoted_sha: job.promoted().cloned(),
            pull_request: job.pull_request().cloned(),
            errand: job.errand().map(|errand| errand.kind),
            pin: job.pin().cloned(),
            run: job.run().cloned(),
            runs: job.runs(),
            spent: job.spent(),
            idempotency_key: job.submission().idempotency_key.clone(),
            seq: job.seq(),
            created_by: job.submission().by.clone(),
            created_at: job.created_at(),
            updated_at: job.updated_at(),
        }
    }
}

/// A job with its manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobDetail {
    /// The job.
    #[serde(flatten)]
    pub job: JobView,
    /// The manifest, byte for byte.
    pub body_md: String,
    /// The manifest as it was understood.
    pub manifest_snapshot: Spec,
    /// Dependencies that are not met yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<JobId>,
    /// When the lease expires unless it is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// What its agent is doing now, as last heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// A page of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobList {
    /// The jobs, newest first.
    pub items: Vec<JobView>,
    /// What to pass as `cursor` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A page of a job's events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventList {
    /// The events, oldest first.
    pub items: Vec<JobEvent>,
    /// What to pass as `after` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A job's runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    /// The runs, oldest first; the last may still be going on.
    pub items: Vec<Run>,
    /// What to pass as `cursor` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Why a job is where it is [S4].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobExplanation {
    /// The job.
    pub job: JobView,
    /// In one sentence.
    pub summary: String,
    /// Every factory, as things are now.
    pub now: Explanation,
    /// Whether the factory that holds it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_presence: Option<Presence>,
    /// The decision as it was taken, for a job that was dispatched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<JobEvent>,
}

/// Who holds a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaseView {
    /// The fence.
    pub lease_epoch: Epoch,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_factory_id: Option<FactoryId>,
    /// Until when, unless it is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// What a person can do to a job [J10].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Merge it.
    Ship,
    /// Send it round again.
    Requeue,
    /// Say no.
    Reject,
    /// Stop it.
    Cancel,
    /// Send it round again from its saved work.
    RetryFromCheckpoint,
    /// Send work in review or under test back to be changed.
    RequestChanges,
    /// Change how urgent it is.
    Priority,
    /// Tie it to a factory, or let it go.
    Pin,
}

impl Action {
    /// The word in paths and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ship => "ship",
            Self::Requeue => "requeue",
            Self::Reject => "reject",
            Self::Cancel => "cancel",
            Self::RetryFromCheckpoint => "retry-from-checkpoint",
            Self::RequestChanges => "request-changes",
            Self::Priority => "priority",
            Self::Pin => "pin",
        }
    }
}

/// The particulars of an action.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionRequest {
    /// Why, for the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The new priority, for `priority`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The factory, for `pin`; none lets the job go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factory_id: Option<FactoryId>,
    /// Throw saved work away, for `requeue`.
    pub fresh: bool,
}

/// A job with everything it waits for and everything that waits for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dag {
    /// The jobs, in order of their ids.
    pub nodes: Vec<DagNode>,
    /// Whether jobs were left out because the graph has more than `limit`; those nearest to the job are there.
    #[serde(default)]
    pub truncated: bool,
    /// How many jobs one answer holds at most.
    #[serde(default)]
    pub limit: u32,
}

/// One job of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DagNode {
    /// The job.
    pub id: JobId,
    /// One line for people.
    pub title: String,
    /// Where it is.
    pub stage: StageName,
    /// The jobs it waits for.
    pub deps: Vec<JobId>,
}

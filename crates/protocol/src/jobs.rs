//! Jobs in the API.

use std::collections::BTreeMap;

use domain::{
    BlockedOn, BranchName, Capability, Checkpoint, CommitSha, Dep, DispatchSeq, EngineName, Epoch, ErrandKind,
    EventSeq, FactoryId, FailureReason, Job, JobEvent, JobId, JobLabel, JobPause, Kind, MergeFailure, Priority,
    ProductId, PullRequest, RepoName, Revision, Run, Spec, Stage, StageName, Tag, Timestamp, TotalSpend, TrackerItem,
};
use scheduler::Explanation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::factories::Presence;
use crate::placement::PlacementDecision;
use crate::problem::Problem;
use crate::profiles::JobProfile;
use crate::progress::Progress;
use crate::review::{JobReview, VoteRight};

/// One job to submit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubmitRequest {
    /// The manifest: Markdown with YAML front matter.
    pub body_md: String,
    /// Idempotency key: a repeated submit with it returns the same job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The product, if the manifest names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_id: Option<ProductId>,
    /// The parent of a child job: its id, or `key:` and the idempotency key it was submitted with, also in the same
    /// batch. The parent waits for its children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Dep>,
    /// Whether unknown keys are errors.
    #[serde(default)]
    pub strict: bool,
}

/// The answer to a submit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubmitResponse {
    /// The job as stored.
    pub job: JobView,
    /// Whether this call created the job; `false` if the idempotency key already existed, or on a dry run.
    pub created: bool,
    /// Warnings about the manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<domain::Finding>,
    /// Where the job can run now [I9].
    pub forecast: Explanation,
}

/// Jobs to submit, each with its own outcome.
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
    /// One outcome per job.
    pub outcomes: Vec<BatchOutcome>,
}

/// The outcome of one job of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchOutcome {
    /// The job's id, if it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<JobId>,
    /// Its stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageName>,
    /// Whether this call created the job.
    #[serde(default)]
    pub created: bool,
    /// Why the job was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// The product that owns the job.
    pub product_id: ProductId,
    /// Title.
    pub title: String,
    /// The current stage.
    pub stage: StageName,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailureReason>,
    /// The latest status message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The question of the agent that the job is blocked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The required review, and the votes on the last completed work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<JobReview>,
    /// The profile that it was submitted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<JobProfile>,
    /// The current priority.
    pub priority: Priority,
    /// Task or composite.
    pub kind: Kind,
    /// The repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// The base branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BranchName>,
    /// Required capabilities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    /// Acceptable engines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineName>,
    /// The dependencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deps: Vec<JobId>,
    /// The parent, for a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<JobId>,
    /// The job at the top of its tree, for a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_id: Option<JobId>,
    /// Whether it has children, or is a composite that waits for some.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_children: bool,
    /// Number of artifacts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub artifacts: u32,
    /// Labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// The revision, for `If-Match`.
    pub rev: Revision,
    /// The current epoch: writes with another one are fenced.
    pub lease_epoch: Epoch,
    /// The factory that holds the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_factory_id: Option<FactoryId>,
    /// The factory that the job is offered to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_factory_id: Option<FactoryId>,
    /// Number of the latest dispatch.
    pub dispatch_seq: DispatchSeq,
    /// Failed attempts that count towards the retry limit. A failure that is final is not one, and `requeue` resets it.
    pub attempts: u32,
    /// Number of expired leases.
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
    /// The last failed promotion or merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_failure: Option<MergeFailure>,
    /// What a queued job, or one blocked on dependencies, waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<JobWait>,
    /// The failed dependency that the job stays blocked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_dependency: Option<JobId>,
    /// Whether an operator dismissed the failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dismissed: bool,
    /// The commit that the pull request's branch points at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted_sha: Option<CommitSha>,
    /// Its pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequest>,
    /// The open promotion or merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errand: Option<ErrandKind>,
    /// The factory that the job is pinned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<FactoryId>,
    /// An operator paused the job: it and those below it are not dispatched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<JobPause>,
    /// The run in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// Number of runs.
    pub runs: u32,
    /// Total cost of the ended runs.
    #[serde(default, skip_serializing_if = "TotalSpend::is_nothing")]
    pub spent: TotalSpend,
    /// The item of a tracker that it was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<TrackerItem>,
    /// The idempotency key of the submit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Sequence number of the latest event.
    pub seq: EventSeq,
    /// Name of the submitter.
    pub created_by: String,
    /// Time of the submit.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// What a job waits for before a factory gets it, or its promotion or merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobWait {
    /// A stable code: `dependencies`, or the code of the scheduler's reason.
    pub code: String,
    /// The reason with its remedy.
    pub text: String,
    /// Whether an operator has to act: neither a free seat nor a retry will help.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unplaceable: bool,
    /// Time of the next retry, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

impl JobView {
    /// Short id and title, for messages.
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
            review: JobReview::of(job),
            profile: job.submission().profile.as_ref().map(JobProfile::of),
            priority: job.priority(),
            kind: spec.kind,
            repo: spec.repo.clone(),
            base: spec.base.clone(),
            capabilities: spec.capabilities.clone(),
            engines: spec.engines.clone(),
            deps: job.submission().deps.clone(),
            parent_id: job.parent(),
            root_id: job.tree().map(|place| place.root_id),
            has_children: job.has_children(),
            artifacts: u32::try_from(job.artifacts().len()).unwrap_or(u32::MAX),
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
            pause: job.pause().cloned(),
            run: job.run().cloned(),
            runs: job.runs(),
            spent: job.spent(),
            item: job.submission().item.clone(),
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
    /// The parsed manifest, with the defaults of its profile.
    pub manifest_snapshot: Spec,
    /// The text of its profile as it was at the submit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Unmet dependencies, and children that have not shipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<JobId>,
    /// When the lease expires without a renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The last reported progress of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The jobs below it, for a job with children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeSummary>,
    /// Whether the caller may vote, while the job is in review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vote: Option<VoteRight>,
}

/// The jobs below a job, together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeSummary {
    /// How many jobs there are below it, on all levels.
    pub jobs: u32,
    /// How many of them have shipped.
    pub shipped: u32,
    /// How many of them failed or were dead-lettered.
    pub failed: u32,
    /// The cost of their ended runs and its own.
    pub spent: TotalSpend,
    /// Its children, ordered by id.
    pub children: Vec<ChildView>,
}

/// A child of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildView {
    /// Its id.
    pub id: JobId,
    /// Title.
    pub title: String,
    /// Task or composite.
    pub kind: Kind,
    /// The current stage.
    pub stage: StageName,
    /// How many jobs there are below it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jobs: u32,
    /// The cost of its ended runs, and of those of the jobs below it.
    #[serde(default, skip_serializing_if = "TotalSpend::is_nothing")]
    pub spent: TotalSpend,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde lends the field")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A page of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobList {
    /// The jobs, newest first. A search may return fewer than requested although there are more.
    pub items: Vec<JobView>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// How many jobs match on all pages; with `total=true` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<JobTotal>,
}

/// How many jobs match a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobTotal {
    /// The number of jobs that were counted.
    #[schema(minimum = 0)]
    pub count: u64,
    /// Whether these are all.
    pub is_exact: bool,
}

/// The number of jobs by stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobCounts {
    /// Every stage, with 0 if it has no job.
    pub stages: BTreeMap<String, u64>,
    /// Why queued jobs wait.
    pub waiting: WaitingCounts,
}

/// Why queued jobs wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingCounts {
    /// Jobs that no factory can run: an operator has to act.
    #[schema(minimum = 0)]
    pub unplaceable: u64,
}

/// A page of a job's events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventList {
    /// The events, oldest first.
    pub items: Vec<JobEvent>,
    /// The `after` of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A job's runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    /// The runs, oldest first; the last may be in progress.
    pub items: Vec<Run>,
    /// The `cursor` of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Why a job is in its stage [S4].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobExplanation {
    /// The job.
    pub job: JobView,
    /// In one sentence.
    pub summary: String,
    /// Every factory's current eligibility.
    pub now: Explanation,
    /// Whether the factory that holds the lease is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_presence: Option<Presence>,
    /// The decision by which it was last placed, as it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<PlacementDecision>,
    /// The event of that decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<JobEvent>,
}

/// The lease of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaseView {
    /// The current epoch: writes with another one are fenced.
    pub lease_epoch: Epoch,
    /// The factory that holds the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_factory_id: Option<FactoryId>,
    /// When the lease expires without a renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// An action of a user on a job [J10].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Merge it.
    Ship,
    /// Requeue it.
    Requeue,
    /// Reject it.
    Reject,
    /// Cancel it.
    Cancel,
    /// Requeue it and resume from its saved work.
    RetryFromCheckpoint,
    /// Send work in review or testing back for changes.
    RequestChanges,
    /// Change the priority.
    Priority,
    /// Pin it to a factory, or remove the pin.
    Pin,
    /// Hold it and the jobs below it: none of them is dispatched. A running one finishes its run.
    Pause,
    /// End the pause.
    Resume,
}

impl Action {
    /// The name in paths and logs.
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
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
}

/// Parameters of an action.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionRequest {
    /// The reason, recorded in the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The new priority, for `priority`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The factory, for `pin`; absent removes the pin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factory_id: Option<FactoryId>,
    /// Whether to discard saved work, for `requeue`.
    pub fresh: bool,
}

/// A job with its transitive dependencies and dependents, and with its tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dag {
    /// The jobs, ordered by id.
    pub nodes: Vec<DagNode>,
    /// Whether the graph was truncated to `limit` jobs; those nearest to the job are included.
    #[serde(default)]
    pub truncated: bool,
    /// Maximum number of jobs in one answer.
    #[serde(default)]
    pub limit: u32,
}

/// One job of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DagNode {
    /// The job.
    pub id: JobId,
    /// Title.
    pub title: String,
    /// The current stage.
    pub stage: StageName,
    /// The dependencies.
    pub deps: Vec<JobId>,
    /// Task or composite.
    #[serde(default)]
    pub kind: Kind,
    /// The parent, for a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<JobId>,
    /// Whether it has children.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_children: bool,
    /// The cost of its ended runs.
    #[serde(default, skip_serializing_if = "TotalSpend::is_nothing")]
    pub spent: TotalSpend,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<JobWait>,
}

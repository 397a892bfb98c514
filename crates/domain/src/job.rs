//! A job: one piece of work, from submit to its end.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

mod accessors;
mod artifacts;
mod effects;
mod feedback;
mod pause;
mod review;
mod stuck;
mod usage;

use artifacts::ArtifactPointers;
pub use artifacts::AttachOutcome;
pub use pause::JobPause;
pub use usage::UsageReport;
use usage::{Meter, RunningRun};

pub use review::VoteOutcome;

use crate::event::{Actor, EventKind, JobEvent};
use crate::ids::{DispatchSeq, Epoch, EventSeq, Generation, JobId, Revision};
use crate::job_columns::{JobColumns, facts_of};
use crate::job_tree::TreePlace;
use crate::json::json_text;
use crate::lease::{Checkpoint, Dispatch, ErrandKind, Lease, Preemption};
use crate::merge_conflict::MergeConflict;
use crate::merge_failure::FailedErrand;
use crate::names::{CommitSha, FactoryId, ProductId};
use crate::ports::{Body, Commit, Expected};
use crate::previous_run::PreviousRun;
use crate::profile::ProfileSnapshot;
use crate::pull_request::{Feedback, PullRequest};
use crate::refusal::Refusal;
use crate::review::{PersonWait, Review, Vote};
use crate::run::{Run, TotalSpend};
use crate::shape::ShapeKey;
use crate::spec::{Priority, Spec};
use crate::stage::{BlockedOn, Holder, JobContext, Stage, StageEvent};
use crate::time::Timestamp;
use crate::tracker::TrackerItem;

/// Version of the stored document. Older versions stay readable.
const DOCUMENT_VERSION: u16 = 1;

/// Approximate length of the stored state.
const STATE_LEN: usize = 1_024;

/// How many promoted commits a job remembers.
const HEADS_MAX: usize = 8;

/// The immutable part of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Submission {
    /// The job's id.
    pub id: JobId,
    /// The product that owns the job.
    pub product: ProductId,
    /// The parsed manifest.
    pub spec: Spec,
    /// The dependencies, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deps: Vec<JobId>,
    /// The place in its tree, for a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreePlace>,
    /// The profile that the job was submitted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileSnapshot>,
    /// The item of a tracker that the job was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<TrackerItem>,
    /// The idempotency key: a repeated submit with it returns the same job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Digest of the body. It detects a different body under the same key.
    pub body_sha256: String,
    /// Name of the submitter.
    pub by: String,
    /// The person that the submitter's token belongs to, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Time of the submit.
    pub at: Timestamp,
}

/// A job. The stage is private: only [`Job::apply`] changes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    submission: Arc<Submission>,
    /// Derived from the submission and the pin; cached because every commit reads it.
    shape: ShapeKey,
    state: State,
    fresh_events: Vec<JobEvent>,
    fresh_runs: Vec<Run>,
    /// The decision behind the next dispatch, for its event.
    decision: Option<Box<serde_json::Map<String, serde_json::Value>>>,
}

/// The mutable part of a job. Small, because every change rewrites it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    v: u16,
    stage: Stage,
    priority: Priority,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pin: Option<FactoryId>,
    lease_epoch: Epoch,
    dispatch_seq: DispatchSeq,
    seq: EventSeq,
    #[serde(default, skip_serializing_if = "is_zero")]
    attempts: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    lost_leases: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    unaccepted: u32,
    /// Releases since the job last made progress.
    #[serde(default, skip_serializing_if = "is_zero")]
    releases: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    runs: u32,
    #[serde(default, skip_serializing_if = "TotalSpend::is_nothing")]
    spent: TotalSpend,
    #[serde(default, skip_serializing_if = "TotalSpend::is_nothing")]
    forgiven: TotalSpend,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<Run>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checkpoint: Option<Checkpoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completed: Option<CommitSha>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completed_epoch: Option<Epoch>,
    /// The factory whose run completed the job: only it may repeat the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completed_by: Option<FactoryId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    promoted: Option<CommitSha>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    heads: Vec<CommitSha>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pull_request: Option<PullRequest>,
    /// Text for the pull request, kept until the pull request is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_text: Option<String>,
    /// Changes that the next run has to make to the completed work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changes: Option<String>,
    /// An operator's message for the next runs, until the work is completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operator_message: Option<String>,
    /// How the last run with an engine ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous_run: Option<PreviousRun>,
    #[serde(default, skip_serializing_if = "Feedback::is_empty")]
    feedback: Feedback,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    avoid: Option<FactoryId>,
    /// The last request to give up a seat for a critical job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    preemption: Option<Preemption>,
    /// The coordinator stopped retrying the promotion or merge.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    merge_failed: bool,
    /// The conflict of the last merge, until the work is completed again or discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conflict: Option<MergeConflict>,
    /// The promotion or merge that failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed_errand: Option<FailedErrand>,
    /// The failed dependency that the job stays blocked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed_dependency: Option<JobId>,
    /// Whether the job has children.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_children: bool,
    /// Whether the job waits for its children: a composite always, a task from its submit or since an operator added
    /// children.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    awaits_children: bool,
    /// The children that its agents created as subtasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    subtasks: Vec<JobId>,
    /// How many of them were created before an operator last requeued the job: what they have cost is forgiven.
    #[serde(default, skip_serializing_if = "is_zero")]
    forgiven_subtasks: u32,
    /// Whether its agent waits for the subtasks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    awaits_subtasks: bool,
    /// An operator paused the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pause: Option<Box<JobPause>>,
    /// Whether a new priority is still on its way to the open jobs below.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    priority_descends: bool,
    /// Whether verify commands ran on the completed work; absent in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verified: Option<bool>,
    /// An operator dismissed the failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    dismissed: bool,
    /// Rework rounds for merge conflicts since an operator last acted on the job.
    #[serde(default, skip_serializing_if = "is_zero")]
    conflict_rounds: u32,
    /// Whether the merge is requested again after the rework.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ship_after_rework: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// The votes on the last completed work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    votes: Vec<Vote>,
    /// The review that an operator requested, where it is stricter than the manifest's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requested_review: Option<Review>,
    /// The wait for a reviewer or for an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    person_wait: Option<PersonWait>,
    /// Costs that were reported apart from the results of runs, by usage id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    meters: Vec<Meter>,
    #[serde(default, skip_serializing_if = "ArtifactPointers::is_empty")]
    artifacts: ArtifactPointers,
    updated_at: Timestamp,
    /// Sequence number of the last change in the store: the queue loads in this order (row 36).
    #[serde(default, skip_serializing_if = "is_unordered")]
    order: u64,
}

/// Lease and offer of a job before a change.
struct PriorHolder {
    lease: Option<Lease>,
    dispatch: Option<Dispatch>,
    errand: Option<ErrandKind>,
    /// The run that uses a seat.
    running: Option<RunningRun>,
    /// The request that the holder gives up its seat.
    preemption: Option<Preemption>,
    /// Whether the agent waited for its subtasks.
    awaited_subtasks: bool,
}

impl PriorHolder {
    fn holder(&self) -> Option<&FactoryId> {
        self.lease.as_ref().map(|lease| &lease.factory)
    }

    /// The factory that held the job or had the offer.
    fn asked(&self) -> Option<&FactoryId> {
        self.holder().or_else(|| self.dispatch.as_ref().map(|offer| &offer.target))
    }
}

/// Whether a new job's dependencies are already met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DepsState {
    /// All dependencies are met.
    Met,
    /// The job waits for other jobs.
    Unmet,
    /// The job waits for its children, and perhaps for other jobs.
    Children,
}

/// A stored document that this version cannot decode.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Written by a newer version.
    #[error("the document has version {found}, this version reads up to {DOCUMENT_VERSION}: use the newer version")]
    Newer {
        /// The version of the document.
        found: u16,
    },
    /// Not a job document.
    #[error("the document is not a job")]
    Malformed(#[source] serde_json::Error),
}

impl Job {
    /// Creates a job.
    pub fn submit(submission: Submission, deps: DepsState) -> Self {
        let stage = match deps {
            DepsState::Met => Stage::waiting(None),
            DepsState::Unmet | DepsState::Children => Stage::Blocked { on: BlockedOn::Deps },
        };
        let awaits_children = deps == DepsState::Children;
        let at = submission.at;
        let by = Actor::Person(submission.by.clone());
        let state = State {
            v: DOCUMENT_VERSION,
            stage,
            priority: submission.spec.priority,
            pin: None,
            lease_epoch: Epoch(0),
            dispatch_seq: DispatchSeq(0),
            seq: EventSeq(0),
            attempts: 0,
            lost_leases: 0,
            unaccepted: 0,
            releases: 0,
            runs: 0,
            spent: TotalSpend::default(),
            forgiven: TotalSpend::default(),
            run: None,
            checkpoint: None,
            completed: None,
            completed_epoch: None,
            completed_by: None,
            promoted: None,
            heads: Vec::new(),
            pull_request: None,
            request_text: None,
            changes: None,
            operator_message: None,
            previous_run: None,
            feedback: Feedback::default(),
            avoid: None,
            preemption: None,
            merge_failed: false,
            conflict: None,
            failed_errand: None,
            failed_dependency: None,
            has_children: awaits_children,
            awaits_children,
            subtasks: Vec::new(),
            forgiven_subtasks: 0,
            awaits_subtasks: false,
            pause: None,
            priority_descends: false,
            verified: None,
            dismissed: false,
            conflict_rounds: 0,
            ship_after_rework: false,
            message: None,
            answer: None,
            votes: Vec::new(),
            requested_review: None,
            person_wait: None,
            meters: Vec::new(),
            artifacts: ArtifactPointers::default(),
            updated_at: at,
            order: 0,
        };
        let mut data = json!({ "title": submission.spec.title });
        if let Some(profile) = &submission.profile {
            data["profile"] = json!(profile.profile);
        }
        if let Some(place) = &submission.tree {
            data["parentId"] = json!(place.parent_id);
        }
        if awaits_children {
            data["waitsFor"] = json!("children");
        }
        let mut job = Self::made_of(Arc::new(submission), state);
        job.record(EventKind::Submitted, at, by, data);
        job
    }

    /// Names the item of a tracker that the job is made of.
    #[must_use]
    pub fn of_item(mut self, item: TrackerItem) -> Self {
        Arc::make_mut(&mut self.submission).item = Some(item);
        self
    }

    /// Starts the job in a generation: the lost history may have granted a job with the same id.
    #[must_use]
    pub fn begun_in(mut self, generation: Generation) -> Self {
        self.enter(generation);
        for event in &mut self.fresh_events {
            event.epoch = self.state.lease_epoch;
        }
        self
    }

    /// Applies an event: checks the fence, then the transition table, then applies the effects. The only way to change
    /// a stage.
    #[expect(clippy::needless_pass_by_value, reason = "an event happens once: it is handed over, not lent")]
    pub fn apply(mut self, event: StageEvent, at: Timestamp, by: Actor) -> Result<Self, Refusal> {
        self.check_fence(&event)?;
        let before = PriorHolder {
            lease: self.lease().cloned(),
            dispatch: self.dispatch().cloned(),
            errand: self.errand().map(|errand| errand.kind),
            running: self.running(),
            preemption: self.pending_preemption().cloned(),
            awaited_subtasks: self.state.awaits_subtasks,
        };
        let around = JobContext {
            at,
            review: self.state.requested_review.as_ref().or(self.submission.spec.review.as_ref()),
            completed: self.state.completed.as_ref(),
            next_epoch: self.state.lease_epoch.next(),
            kind: self.submission.spec.kind,
        };
        self.state.stage = self.state.stage.apply(&event, &around)?;
        self.raise_epoch(before.lease.as_ref());
        let repository = self.repository().cloned();
        self.follow(&event, &before, at);
        self.note_person_wait(at);
        if self.repository() != repository.as_ref() {
            self.shape = self.shape().key();
        }
        let (kind, mut data) = self.describe(&event, &before);
        self.add_usage(&before, &mut data);
        if let (StageEvent::Dispatched { .. }, Some(decision)) = (&event, self.decision.take())
            && let Some(data) = data.as_object_mut()
        {
            data.extend(*decision);
        }
        self.record(kind, at, by, data);
        Ok(self)
    }

    /// Changes the priority.
    #[must_use]
    pub fn with_priority(mut self, priority: Priority, at: Timestamp, by: Actor) -> Self {
        self.state.priority = priority;
        self.state.priority_descends = self.state.has_children;
        self.record(EventKind::PriorityChanged, at, by, json!({ "priority": priority }));
        self
    }

    /// Pins the job to one factory, or removes the pin.
    #[must_use]
    pub fn with_pin(mut self, pin: Option<FactoryId>, at: Timestamp, by: Actor) -> Self {
        self.record(EventKind::Pinned, at, by, json!({ "factoryId": pin }));
        self.state.pin = pin;
        self.shape = self.shape().key();
        self
    }

    /// Records the decision behind the next dispatch: its event keeps it [S4].
    #[must_use]
    pub fn decided_by(mut self, decision: serde_json::Map<String, serde_json::Value>) -> Self {
        self.decision = (!decision.is_empty()).then(|| Box::new(decision));
        self
    }

    /// Sets the sequence number of the change about to be written. Unlike wall clocks, it never goes back.
    pub fn set_order(&mut self, order: u64) {
        self.state.order = order;
    }

    /// Sequence number of the last change; 0 in documents of older versions.
    pub fn order(&self) -> u64 {
        self.state.order
    }

    /// Discards saved work: the next run starts from the base branch.
    #[must_use]
    pub fn without_checkpoint(mut self) -> Self {
        self.discard_work();
        self
    }

    /// The commit that writes this job over `expected`, with all events since it was read.
    pub fn commit_at(mut self, expected: Expected, body: Option<Body>) -> Commit {
        let events = std::mem::take(&mut self.fresh_events);
        let runs = std::mem::take(&mut self.fresh_runs);
        let facts = self.facts();
        Commit { expected, job: self, body, facts, events, runs }
    }

    /// The mutable part as stored JSON.
    pub fn state_json(&self) -> Result<String, serde_json::Error> {
        json_text(&self.state, STATE_LEN)
    }

    /// Restores a job from its two stored parts.
    pub fn from_stored(submission: Arc<Submission>, state: &str) -> Result<Self, DocumentError> {
        let state: State = serde_json::from_str(state).map_err(|error| match version_of(state) {
            Some(found) if found > DOCUMENT_VERSION => DocumentError::Newer { found },
            _ => DocumentError::Malformed(error),
        })?;
        if state.v > DOCUMENT_VERSION {
            return Err(DocumentError::Newer { found: state.v });
        }
        Ok(Self::made_of(submission, state))
    }

    fn made_of(submission: Arc<Submission>, state: State) -> Self {
        let shape = ShapeKey(0);
        let job = Self { submission, shape, state, fresh_events: Vec::new(), fresh_runs: Vec::new(), decision: None };
        Self { shape: job.shape().key(), ..job }
    }

    /// The columns for queries. The domain computes them, so that no store parses a document to answer a query.
    pub fn facts(&self) -> JobColumns {
        facts_of(self)
    }

    /// Checks that a factory holds the job's lease, for a request that does not change the job.
    pub fn require_holder(&self, holder: &Holder) -> Result<(), Refusal> {
        let (shown, held) = (holder.epoch, self.state.lease_epoch);
        if shown != held {
            return Err(Refusal::StaleEpoch { shown, held });
        }
        match self.lease() {
            Some(lease) if lease.factory == holder.factory => Ok(()),
            _ => Err(Refusal::NotHolder { factory: holder.factory.clone() }),
        }
    }

    fn check_fence(&self, event: &StageEvent) -> Result<(), Refusal> {
        if let Some(shown) = event.epoch()
            && shown != self.state.lease_epoch
        {
            return Err(Refusal::StaleEpoch { shown, held: self.state.lease_epoch });
        }
        if let StageEvent::Restored { generation } = event
            && *generation <= self.generation()
        {
            return Err(Refusal::StaleEpoch { shown: Epoch::first_of(*generation), held: self.state.lease_epoch });
        }
        if let Some(holder) = event.holder()
            && self.lease().is_none_or(|lease| lease.factory != holder.factory)
        {
            return Err(Refusal::NotHolder { factory: holder.factory.clone() });
        }
        Ok(())
    }

    /// Raises the epoch on every grant and on every write that clears a holder [I2].
    fn raise_epoch(&mut self, held_before: Option<&Lease>) {
        if self.lease() != held_before {
            self.state.lease_epoch = self.state.lease_epoch.next();
        }
    }

    /// Raises epoch and dispatch number above all that earlier generations granted.
    fn enter(&mut self, generation: Generation) {
        self.state.lease_epoch = self.state.lease_epoch.max(Epoch::first_of(generation));
        self.state.dispatch_seq = self.state.dispatch_seq.max(DispatchSeq::first_of(generation));
    }

    fn record(&mut self, kind: EventKind, at: Timestamp, by: Actor, data: serde_json::Value) {
        self.state.seq = self.state.seq.next();
        self.state.updated_at = at;
        let stage = self.state.stage.name();
        self.fresh_events.push(JobEvent {
            text: crate::event::sentence(kind, stage, &by, &data),
            job_id: self.submission.id,
            product_id: self.submission.product.clone(),
            seq: self.state.seq,
            at,
            kind,
            stage,
            epoch: self.state.lease_epoch,
            by,
            data,
        });
    }
}

/// A value with the revision at which it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// The revision that a write over it must expect.
    pub revision: Revision,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde lends the field")]
fn is_unordered(order: &u64) -> bool {
    *order == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde lends the field")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn version_of(state: &str) -> Option<u16> {
    #[derive(Deserialize)]
    struct Version {
        v: u16,
    }
    serde_json::from_str::<Version>(state).ok().map(|version| version.v)
}

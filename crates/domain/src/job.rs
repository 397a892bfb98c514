//! One piece of work, from submit to its end.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

mod accessors;
mod effects;
mod feedback;
mod stuck;

use crate::event::{Actor, EventKind, JobEvent};
use crate::ids::{DispatchSeq, Epoch, EventSeq, Generation, JobId, Revision};
use crate::job_columns::{JobColumns, facts_of};
use crate::json::json_text;
use crate::lease::{Checkpoint, Dispatch, ErrandKind, Lease};
use crate::merge_conflict::MergeConflict;
use crate::merge_failure::FailedErrand;
use crate::names::{CommitSha, FactoryId, ProductId};
use crate::ports::{Body, Commit, Expected};
use crate::previous_run::PreviousRun;
use crate::pull_request::{Feedback, PullRequest};
use crate::refusal::Refusal;
use crate::run::{Run, TotalSpend};
use crate::shape::ShapeKey;
use crate::spec::{Priority, Spec};
use crate::stage::{BlockedOn, JobContext, Stage, StageEvent};
use crate::time::Timestamp;

/// The version of the stored document. Older ones are read for ever.
const DOCUMENT_VERSION: u16 = 1;

/// About how long the changing part of a job is.
const STATE_LEN: usize = 1_024;

/// How many commits are remembered as ones that the pull request's branch may show.
const HEADS_MAX: usize = 8;

/// What was submitted: written once, never changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Submission {
    /// The job.
    pub id: JobId,
    /// Whose it is.
    pub product: ProductId,
    /// What it asks for.
    pub spec: Spec,
    /// Its dependencies, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deps: Vec<JobId>,
    /// The key under which a repeated submit is the same job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The digest of the body, so that another body under the same key is noticed.
    pub body_sha256: String,
    /// Who submitted it.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// One piece of work. The stage is private: [`Job::apply`] is the only way to change it.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    submission: Arc<Submission>,
    /// Follows from the submission and the pin; kept because every commit asks for it.
    shape: ShapeKey,
    state: State,
    fresh_events: Vec<JobEvent>,
    fresh_runs: Vec<Run>,
}

/// The part of a job that changes: small, because every change writes it again.
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
    /// How often holders gave it back since it last got anywhere.
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
    /// The factory whose run completed it: only that one may repeat its report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completed_by: Option<FactoryId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    promoted: Option<CommitSha>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    heads: Vec<CommitSha>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pull_request: Option<PullRequest>,
    /// The text of the pull request, for as long as somebody may have to open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_text: Option<String>,
    /// What the next run has to change about the completed work.
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
    /// Its promotion or merge was given up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    merge_failed: bool,
    /// The conflict that the last merge ended with, until the work is completed anew or starts over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conflict: Option<MergeConflict>,
    /// The promotion or merge that failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed_errand: Option<FailedErrand>,
    /// The dependency that failed and that the job waits for all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed_dependency: Option<JobId>,
    /// Whether verify commands ran on the completed work; absent in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verified: Option<bool>,
    /// A dead letter that an operator took off the list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    dismissed: bool,
    /// Rework rounds that merge conflicts have started since an operator last acted on the job.
    #[serde(default, skip_serializing_if = "is_zero")]
    conflict_rounds: u32,
    /// The merge is requested again once the rework is completed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ship_after_rework: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    updated_at: Timestamp,
    /// The place of the last change among all changes: what the queue is ordered by when it is loaded (row 36).
    #[serde(default, skip_serializing_if = "is_unordered")]
    order: u64,
}

/// What was out or held before a change.
struct PriorHolder {
    lease: Option<Lease>,
    dispatch: Option<Dispatch>,
    errand: Option<ErrandKind>,
}

impl PriorHolder {
    fn holder(&self) -> Option<&FactoryId> {
        self.lease.as_ref().map(|lease| &lease.factory)
    }

    /// The factory that had it or was offered it.
    fn asked(&self) -> Option<&FactoryId> {
        self.holder().or_else(|| self.dispatch.as_ref().map(|offer| &offer.target))
    }
}

/// Whether a new job's dependencies are already met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DepsState {
    /// Nothing holds it back.
    Met,
    /// It waits for other jobs.
    Unmet,
}

/// A stored document that this version cannot read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Written by a newer version.
    #[error("the document has version {found}, this program reads up to {DOCUMENT_VERSION}: use the newer program")]
    Newer {
        /// Its version.
        found: u16,
    },
    /// Not a job.
    #[error("the document is not a job")]
    Malformed(#[source] serde_json::Error),
}

impl Job {
    /// A job as it is written down for the first time.
    pub fn submit(submission: Submission, deps: DepsState) -> Self {
        let stage = match deps {
            DepsState::Met => Stage::waiting(None),
            DepsState::Unmet => Stage::Blocked { on: BlockedOn::Deps },
        };
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
            merge_failed: false,
            conflict: None,
            failed_errand: None,
            failed_dependency: None,
            verified: None,
            dismissed: false,
            conflict_rounds: 0,
            ship_after_rework: false,
            message: None,
            answer: None,
            updated_at: at,
            order: 0,
        };
        let title = submission.spec.title.clone();
        let mut job = Self::made_of(Arc::new(submission), state);
        job.record(EventKind::Submitted, at, by, json!({ "title": title }));
        job
    }

    /// A new job in a generation of the store: it may bear the id of one that was granted in a lost future.
    #[must_use]
    pub fn begun_in(mut self, generation: Generation) -> Self {
        self.enter(generation);
        for event in &mut self.fresh_events {
            event.epoch = self.state.lease_epoch;
        }
        self
    }

    /// The only way a job changes stage: the fence first, then the table, then what the change brings with it.
    #[expect(clippy::needless_pass_by_value, reason = "an event happens once: it is handed over, not lent")]
    pub fn apply(mut self, event: StageEvent, at: Timestamp, by: Actor) -> Result<Self, Refusal> {
        self.check_fence(&event)?;
        let before = PriorHolder {
            lease: self.lease().cloned(),
            dispatch: self.dispatch().cloned(),
            errand: self.errand().map(|errand| errand.kind),
        };
        let around = JobContext {
            at,
            review: self.submission.spec.review.as_ref(),
            completed: self.state.completed.as_ref(),
            next_epoch: self.state.lease_epoch.next(),
        };
        self.state.stage = self.state.stage.apply(&event, &around)?;
        self.raise_epoch(before.lease.as_ref());
        let repository = self.repository().cloned();
        self.follow(&event, &before, at);
        if self.repository() != repository.as_ref() {
            self.shape = self.shape().key();
        }
        let (kind, data) = self.describe(&event, &before);
        self.record(kind, at, by, data);
        Ok(self)
    }

    /// Changes how urgent the job is.
    #[must_use]
    pub fn with_priority(mut self, priority: Priority, at: Timestamp, by: Actor) -> Self {
        self.state.priority = priority;
        self.record(EventKind::PriorityChanged, at, by, json!({ "priority": priority }));
        self
    }

    /// Ties the job to one factory, or lets it go.
    #[must_use]
    pub fn with_pin(mut self, pin: Option<FactoryId>, at: Timestamp, by: Actor) -> Self {
        self.record(EventKind::Pinned, at, by, json!({ "factoryId": pin }));
        self.state.pin = pin;
        self.shape = self.shape().key();
        self
    }

    /// Numbers the change that is about to be written, after all changes before it. Wall clocks jump; this does not.
    pub fn set_order(&mut self, order: u64) {
        self.state.order = order;
    }

    /// The place of the last change among all changes; 0 in documents of older versions.
    pub fn order(&self) -> u64 {
        self.state.order
    }

    /// Discards saved work: the next run starts from the base branch.
    #[must_use]
    pub fn without_checkpoint(mut self) -> Self {
        self.discard_work();
        self
    }

    /// The unit that writes this job over `expected`, with everything that happened since it was read.
    pub fn commit_at(mut self, expected: Expected, body: Option<Body>) -> Commit {
        let events = std::mem::take(&mut self.fresh_events);
        let runs = std::mem::take(&mut self.fresh_runs);
        let facts = self.facts();
        Commit { expected, job: self, body, facts, events, runs }
    }

    /// The changing part, as stores keep it.
    pub fn state_json(&self) -> Result<String, serde_json::Error> {
        json_text(&self.state, STATE_LEN)
    }

    /// The job made of its two stored parts.
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
        let job = Self { submission, shape, state, fresh_events: Vec::new(), fresh_runs: Vec::new() };
        Self { shape: job.shape().key(), ..job }
    }

    /// The facts that queries need, computed here so that no store reads a document to answer one.
    pub fn facts(&self) -> JobColumns {
        facts_of(self)
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

    /// The epoch rises on every grant and on every write that clears a holder [I2].
    fn raise_epoch(&mut self, held_before: Option<&Lease>) {
        if self.lease() != held_before {
            self.state.lease_epoch = self.state.lease_epoch.next();
        }
    }

    /// Counts epochs and dispatches above everything that an earlier generation can have given out.
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

/// A value with the revision it was read at.
#[derive(Debug, Clone, PartialEq)]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// What a write over it must expect.
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

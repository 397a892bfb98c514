//! What can be read off a job.

use std::sync::Arc;

use super::{Job, Submission};
use crate::ids::{DispatchSeq, Epoch, EventSeq, Generation, JobId};
use crate::job_label::JobLabel;
use crate::lease::{Checkpoint, Dispatch, Errand, ErrandState, Lease};
use crate::merge_conflict::MergeConflict;
use crate::names::{CommitSha, FactoryId, ProductId, RepoIdentity};
use crate::previous_run::PreviousRun;
use crate::pull_request::PullRequest;
use crate::run::{Run, TotalSpend};
use crate::shape::{Shape, ShapeKey};
use crate::spec::{Priority, Spec};
use crate::stage::Stage;
use crate::time::Timestamp;

impl Job {
    /// Its id.
    pub fn id(&self) -> JobId {
        self.submission.id
    }

    /// Its short id and its title, for messages.
    pub fn label(&self) -> JobLabel<'_> {
        self.submission.id.titled(&self.submission.spec.title)
    }

    /// Whose it is.
    pub fn product(&self) -> &ProductId {
        &self.submission.product
    }

    /// What was submitted.
    pub fn submission(&self) -> &Arc<Submission> {
        &self.submission
    }

    /// What it asks for.
    pub fn spec(&self) -> &Spec {
        &self.submission.spec
    }

    /// Where it is.
    pub fn stage(&self) -> &Stage {
        &self.state.stage
    }

    /// How urgent it is now.
    pub fn priority(&self) -> Priority {
        self.state.priority
    }

    /// The one factory that may run it.
    pub fn pin(&self) -> Option<&FactoryId> {
        self.state.pin.as_ref()
    }

    /// The fence.
    pub fn epoch(&self) -> Epoch {
        self.state.lease_epoch
    }

    /// The generation of the store in which it last changed hands, or was lifted into.
    pub fn generation(&self) -> Generation {
        self.state.lease_epoch.generation()
    }

    /// The number of its latest dispatch.
    pub fn dispatch_seq(&self) -> DispatchSeq {
        self.state.dispatch_seq
    }

    /// The number of its latest event.
    pub fn seq(&self) -> EventSeq {
        self.state.seq
    }

    /// Failed attempts that counted.
    pub fn attempts(&self) -> u32 {
        self.state.attempts
    }

    /// How often holders gave it back since it last got anywhere.
    pub fn releases(&self) -> u32 {
        self.state.releases
    }

    /// Leases that expired under it.
    pub fn lost_leases(&self) -> u32 {
        self.state.lost_leases
    }

    /// Offers in a row that nobody took.
    pub fn unaccepted(&self) -> u32 {
        self.state.unaccepted
    }

    /// The run that is going on.
    pub fn run(&self) -> Option<&Run> {
        self.state.run.as_ref()
    }

    /// How many runs it had, the current one included.
    pub fn runs(&self) -> u32 {
        self.state.runs
    }

    /// What its ended runs have cost together.
    pub fn spent(&self) -> TotalSpend {
        self.state.spent
    }

    /// The part of it that counts against the job's budget: what was spent before an operator let it start over does not.
    pub fn spent_of_budget(&self) -> TotalSpend {
        self.state.spent.beyond(self.state.forgiven)
    }

    /// Saved work to resume from.
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        self.state.checkpoint.as_ref()
    }

    /// The commit that was completed and verified.
    pub fn completed(&self) -> Option<&CommitSha> {
        self.state.completed.as_ref()
    }

    /// The epoch of the run that completed it: its ref holds the commit.
    pub fn completed_epoch(&self) -> Option<Epoch> {
        self.state.completed_epoch
    }

    /// The factory of the run that completed it; absent in documents of earlier versions.
    pub fn completed_by(&self) -> Option<&FactoryId> {
        self.state.completed_by.as_ref()
    }

    /// The commit that the pull request's branch shows; none before the first promotion, and none again when a failed job
    /// is sent round anew.
    pub fn promoted(&self) -> Option<&CommitSha> {
        self.state.promoted.as_ref()
    }

    /// The commits that the pull request's branch may show: each was granted a promotion once.
    pub fn heads(&self) -> &[CommitSha] {
        &self.state.heads
    }

    /// Its pull request, once there is one.
    pub fn pull_request(&self) -> Option<&PullRequest> {
        self.state.pull_request.as_ref()
    }

    /// The text of its pull request, for whoever has to open it.
    pub fn request_text(&self) -> Option<&str> {
        self.state.request_text.as_deref()
    }

    /// What has to be changed about the completed work.
    pub fn changes(&self) -> Option<&str> {
        self.state.changes.as_deref()
    }

    /// How its last run with an engine ended.
    pub fn previous_run(&self) -> Option<&PreviousRun> {
        self.state.previous_run.as_ref()
    }

    /// An operator's message for the next run, until the work is completed.
    pub fn operator_message(&self) -> Option<&str> {
        self.state.operator_message.as_deref()
    }

    /// Rework rounds that merge conflicts have started since an operator last acted on the job.
    pub fn conflict_rounds(&self) -> u32 {
        self.state.conflict_rounds
    }

    /// Whether the merge is requested again once the rework after a conflict is completed.
    pub fn ships_after_rework(&self) -> bool {
        self.state.ship_after_rework
    }

    /// The question that its last run asked and what a person answered, until the work is done.
    pub fn answer(&self) -> Option<&str> {
        self.state.answer.as_deref()
    }

    /// How often its pull request has sent it back.
    pub fn feedback_rounds(&self) -> u32 {
        self.state.feedback.rounds()
    }

    /// Whether its pull request has sent it back too often: a person has to look.
    pub fn is_escalated(&self) -> bool {
        self.state.feedback.is_escalated()
    }

    /// Whether its work is done and its promotion or merge was given up: a person has to look.
    pub fn is_merge_failed(&self) -> bool {
        self.state.merge_failed && matches!(self.state.stage, Stage::Testing { errand: None, .. })
    }

    /// The conflict that its last merge ended with, until its work is completed anew or starts over.
    pub fn merge_conflict(&self) -> Option<&MergeConflict> {
        self.state.conflict.as_ref()
    }

    /// Whether a check or a comment of its pull request was acted upon already.
    pub fn has_answered(&self, id: &str) -> bool {
        self.state.feedback.knows(id)
    }

    /// The factory that last failed it or did not take it: another is preferred.
    pub fn avoid(&self) -> Option<&FactoryId> {
        self.state.avoid.as_ref()
    }

    /// The latest word on why it is where it is.
    pub fn message(&self) -> Option<&str> {
        self.state.message.as_deref()
    }

    /// When it was submitted.
    pub fn created_at(&self) -> Timestamp {
        self.submission.at
    }

    /// When it last changed.
    pub fn updated_at(&self) -> Timestamp {
        self.state.updated_at
    }

    /// What decides where it can run.
    pub fn shape(&self) -> Shape {
        let mut capabilities = self.submission.spec.capabilities.clone();
        capabilities.sort();
        capabilities.dedup();
        Shape {
            product: self.submission.product.clone(),
            repo: self.submission.spec.repo.clone(),
            capabilities,
            engines: self.submission.spec.engines.clone(),
            pin: self.state.pin.clone(),
            identity: self.repository().cloned(),
        }
    }

    /// Whether it is queued with nothing that an earlier run or attempt left behind.
    pub fn is_queued_afresh(&self) -> bool {
        let state = &self.state;
        let is_ready = matches!(state.stage, Stage::Queued { not_before: None, .. });
        is_ready && state.checkpoint.is_none() && state.conflict.is_none() && state.attempts == 0 && state.releases == 0
    }

    /// The repository that its saved or completed work was pushed to.
    pub fn repository(&self) -> Option<&RepoIdentity> {
        self.state.checkpoint.as_ref()?.repository.as_ref()
    }

    /// The short name of its shape.
    pub fn shape_key(&self) -> ShapeKey {
        self.shape
    }

    /// When a sweep has to look at it: accept deadline, end of backoff, end of an errand's time.
    pub fn due(&self) -> Option<Timestamp> {
        match (self.stage(), self.errand().map(|errand| &errand.state)) {
            (Stage::Queued { dispatch: Some(offer), .. }, _) => Some(offer.accept_by),
            (Stage::Queued { not_before, .. }, _) => *not_before,
            (_, Some(ErrandState::Dispatched { dispatch })) => Some(dispatch.accept_by),
            (_, Some(ErrandState::Held { until, .. })) => Some(*until),
            (_, Some(ErrandState::Waiting { not_before })) => *not_before,
            (_, None) => None,
        }
    }

    /// The right that is held on it now, for work or for an errand.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state.stage {
            Stage::Assigned { lease } | Stage::Building { lease, .. } => Some(lease),
            Stage::Review { errand: Some(errand), .. } | Stage::Testing { errand: Some(errand), .. } => errand.lease(),
            Stage::Queued { .. }
            | Stage::Blocked { .. }
            | Stage::Review { .. }
            | Stage::Testing { .. }
            | Stage::Shipped
            | Stage::Failed { .. }
            | Stage::DeadLetter { .. } => None,
        }
    }

    /// The lease that takes up a seat: an errand takes none.
    pub fn seat(&self) -> Option<&Lease> {
        match &self.state.stage {
            Stage::Assigned { lease } | Stage::Building { lease, .. } => Some(lease),
            _ => None,
        }
    }

    /// The errand that is open, in review or under test.
    pub fn errand(&self) -> Option<&Errand> {
        match &self.state.stage {
            Stage::Review { errand, .. } | Stage::Testing { errand, .. } => errand.as_ref(),
            _ => None,
        }
    }

    /// The offer that is out, for work or for an errand.
    pub fn dispatch(&self) -> Option<&Dispatch> {
        match &self.state.stage {
            Stage::Queued { dispatch, .. } => dispatch.as_ref(),
            _ => match self.errand().map(|errand| &errand.state) {
                Some(ErrandState::Dispatched { dispatch }) => Some(dispatch),
                _ => None,
            },
        }
    }

    /// The end of the current backoff.
    pub fn not_before(&self) -> Option<Timestamp> {
        match &self.state.stage {
            Stage::Queued { not_before, .. } => *not_before,
            _ => match self.errand().map(|errand| &errand.state) {
                Some(ErrandState::Waiting { not_before }) => *not_before,
                _ => None,
            },
        }
    }
}

impl Errand {
    /// The right of the factory that is at it.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            ErrandState::Held { lease, .. } => Some(lease),
            ErrandState::Waiting { .. } | ErrandState::Dispatched { .. } => None,
        }
    }
}

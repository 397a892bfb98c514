//! Accessors of a job.

use std::sync::Arc;

use super::{Job, Submission};
use crate::ids::{DispatchSeq, Epoch, EventSeq, Generation, JobId};
use crate::job_label::JobLabel;
use crate::job_tree::TreePlace;
use crate::lease::{Checkpoint, Dispatch, Errand, ErrandKind, ErrandState, Lease, Preemption};
use crate::merge_conflict::MergeConflict;
use crate::names::{CommitSha, FactoryId, ProductId, RepoIdentity};
use crate::previous_run::PreviousRun;
use crate::pull_request::PullRequest;
use crate::run::{Run, TotalSpend};
use crate::shape::{Shape, ShapeKey};
use crate::spec::{Kind, Priority, Spec};
use crate::stage::Stage;
use crate::time::Timestamp;

impl Job {
    /// The job's id.
    pub fn id(&self) -> JobId {
        self.submission.id
    }

    /// Short id and title, for messages.
    pub fn label(&self) -> JobLabel<'_> {
        self.submission.id.titled(&self.submission.spec.title)
    }

    /// The product that owns the job.
    pub fn product(&self) -> &ProductId {
        &self.submission.product
    }

    /// What was submitted.
    pub fn submission(&self) -> &Arc<Submission> {
        &self.submission
    }

    /// The place in its tree, for a child.
    pub fn tree(&self) -> Option<&TreePlace> {
        self.submission.tree.as_ref()
    }

    /// The parent, for a child.
    pub fn parent(&self) -> Option<JobId> {
        self.tree().map(|place| place.parent_id)
    }

    /// Whether the job follows its children and has no run of its own.
    pub fn is_composite(&self) -> bool {
        self.submission.spec.kind == Kind::Composite
    }

    /// Whether the job has children.
    pub fn has_children(&self) -> bool {
        self.state.has_children
    }

    /// Whether the job waits for its children.
    pub fn awaits_children(&self) -> bool {
        self.state.awaits_children
    }

    /// The children that its agents created as subtasks, in the order of their creation.
    pub fn subtasks(&self) -> &[JobId] {
        &self.state.subtasks
    }

    /// Whether a subtask was created before an operator last requeued the job: what it has cost is forgiven.
    pub fn forgives_subtask(&self, id: JobId) -> bool {
        let forgiven = usize::try_from(self.state.forgiven_subtasks).unwrap_or(usize::MAX);
        self.state.subtasks.iter().take(forgiven).any(|subtask| *subtask == id)
    }

    /// Whether its agent waits for the subtasks.
    pub fn awaits_subtasks(&self) -> bool {
        self.state.awaits_subtasks
    }

    /// Whether no run of the job is expected any more: its work is verified and its branch has it, or it has ended. An
    /// operator or a merge conflict may still send it back.
    pub fn is_settled(&self) -> bool {
        match &self.state.stage {
            Stage::Testing { errand, .. } => errand.as_ref().is_none_or(|errand| errand.kind == ErrandKind::Ship),
            stage => stage.name().is_terminal(),
        }
    }

    /// Whether a new priority is still on its way to the open jobs below.
    pub fn priority_descends(&self) -> bool {
        self.state.priority_descends
    }

    /// The priority has reached every open job below.
    #[must_use]
    pub fn with_descended_priority(mut self) -> Self {
        self.state.priority_descends = false;
        self
    }

    /// The parsed manifest.
    pub fn spec(&self) -> &Spec {
        &self.submission.spec
    }

    /// The text of the job's profile, as it was at the submit; `None` for one that has defaults only.
    pub fn persona(&self) -> Option<&str> {
        let persona = self.submission.profile.as_ref().map(|profile| &*profile.persona);
        persona.filter(|persona| !persona.is_empty())
    }

    /// The current stage.
    pub fn stage(&self) -> &Stage {
        &self.state.stage
    }

    /// The current priority.
    pub fn priority(&self) -> Priority {
        self.state.priority
    }

    /// The factory that the job is pinned to.
    pub fn pin(&self) -> Option<&FactoryId> {
        self.state.pin.as_ref()
    }

    /// The current epoch: writes with another one are fenced.
    pub fn epoch(&self) -> Epoch {
        self.state.lease_epoch
    }

    /// The generation of the job's epoch.
    pub fn generation(&self) -> Generation {
        self.state.lease_epoch.generation()
    }

    /// Number of the latest dispatch.
    pub fn dispatch_seq(&self) -> DispatchSeq {
        self.state.dispatch_seq
    }

    /// Sequence number of the latest event.
    pub fn seq(&self) -> EventSeq {
        self.state.seq
    }

    /// Number of failed attempts that count towards the retry limit.
    pub fn attempts(&self) -> u32 {
        self.state.attempts
    }

    /// Releases since the job last made progress.
    pub fn releases(&self) -> u32 {
        self.state.releases
    }

    /// Number of expired leases.
    pub fn lost_leases(&self) -> u32 {
        self.state.lost_leases
    }

    /// Consecutive offers that no factory accepted.
    pub fn unaccepted(&self) -> u32 {
        self.state.unaccepted
    }

    /// The run in progress.
    pub fn run(&self) -> Option<&Run> {
        self.state.run.as_ref()
    }

    /// Number of runs, including the current one.
    pub fn runs(&self) -> u32 {
        self.state.runs
    }

    /// Total cost of the ended runs.
    pub fn spent(&self) -> TotalSpend {
        self.state.spent
    }

    /// The cost that counts against the budget. A fresh start by an operator resets it.
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

    /// The epoch of the run that completed the job: the run's ref points at the commit.
    pub fn completed_epoch(&self) -> Option<Epoch> {
        self.state.completed_epoch
    }

    /// The factory of the run that completed it; absent in documents of earlier versions.
    pub fn completed_by(&self) -> Option<&FactoryId> {
        self.state.completed_by.as_ref()
    }

    /// The commit that the pull request's branch points at. `None` before the first promotion and after a failed job is
    /// requeued.
    pub fn promoted(&self) -> Option<&CommitSha> {
        self.state.promoted.as_ref()
    }

    /// The commits that were granted a promotion: the pull request's branch may point at any of them.
    pub fn heads(&self) -> &[CommitSha] {
        &self.state.heads
    }

    /// Its pull request, once there is one.
    pub fn pull_request(&self) -> Option<&PullRequest> {
        self.state.pull_request.as_ref()
    }

    /// Text for the pull request, until it is open.
    pub fn request_text(&self) -> Option<&str> {
        self.state.request_text.as_deref()
    }

    /// Changes that the next run has to make to the completed work.
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

    /// Rework rounds for merge conflicts since an operator last acted on the job.
    pub fn conflict_rounds(&self) -> u32 {
        self.state.conflict_rounds
    }

    /// Whether the merge is requested again after the rework.
    pub fn ships_after_rework(&self) -> bool {
        self.state.ship_after_rework
    }

    /// The last question with the user's answer, until the work is completed.
    pub fn answer(&self) -> Option<&str> {
        self.state.answer.as_deref()
    }

    /// Number of feedback rounds of the pull request.
    pub fn feedback_rounds(&self) -> u32 {
        self.state.feedback.rounds()
    }

    /// Whether the feedback rounds are used up; a maintainer has to act.
    pub fn is_escalated(&self) -> bool {
        self.state.feedback.is_escalated()
    }

    /// Whether the coordinator stopped retrying the promotion or merge; a maintainer has to act.
    pub fn is_merge_failed(&self) -> bool {
        self.state.merge_failed && matches!(self.state.stage, Stage::Testing { errand: None, .. })
    }

    /// The conflict of the last merge, until the work is completed again or discarded.
    pub fn merge_conflict(&self) -> Option<&MergeConflict> {
        self.state.conflict.as_ref()
    }

    /// Whether a check or comment of the pull request was already handled.
    pub fn has_answered(&self, id: &str) -> bool {
        self.state.feedback.knows(id)
    }

    /// The factory that last failed or declined the job. The scheduler prefers another one.
    pub fn avoid(&self) -> Option<&FactoryId> {
        self.state.avoid.as_ref()
    }

    /// The last request to give up a seat for a critical job.
    pub fn preemption(&self) -> Option<&Preemption> {
        self.state.preemption.as_ref()
    }

    /// The request that the current holder gives up its seat.
    pub fn pending_preemption(&self) -> Option<&Preemption> {
        let epoch = self.seat()?.epoch;
        self.state.preemption.as_ref().filter(|preemption| preemption.epoch == epoch)
    }

    /// The latest status message.
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

    /// The constraints that decide where the job can run.
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

    /// Whether the job is queued and has no state of an earlier run.
    pub fn is_queued_afresh(&self) -> bool {
        let state = &self.state;
        let is_ready = matches!(state.stage, Stage::Queued { not_before: None, .. });
        is_ready && state.checkpoint.is_none() && state.conflict.is_none() && state.attempts == 0 && state.releases == 0
    }

    /// The repository that holds the saved or completed work.
    pub fn repository(&self) -> Option<&RepoIdentity> {
        self.state.checkpoint.as_ref()?.repository.as_ref()
    }

    /// The key of the job's shape.
    pub fn shape_key(&self) -> ShapeKey {
        self.shape
    }

    /// When the sweep has to process the job: accept deadline, end of backoff, deadline of an errand or of a preemption.
    pub fn due(&self) -> Option<Timestamp> {
        match (self.stage(), self.errand().map(|errand| &errand.state)) {
            (Stage::Queued { dispatch: Some(offer), .. }, _) => Some(offer.accept_by),
            (Stage::Queued { not_before, .. }, _) => *not_before,
            (_, Some(ErrandState::Dispatched { dispatch })) => Some(dispatch.accept_by),
            (_, Some(ErrandState::Held { until, .. })) => Some(*until),
            (_, Some(ErrandState::Waiting { not_before })) => *not_before,
            (_, None) => self.pending_preemption().map(|preemption| preemption.until),
        }
    }

    /// The current lease, of a run or an errand.
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

    /// The lease that uses a seat. Errands use none.
    pub fn seat(&self) -> Option<&Lease> {
        match &self.state.stage {
            Stage::Assigned { lease } | Stage::Building { lease, .. } => Some(lease),
            _ => None,
        }
    }

    /// The open errand, in review or testing.
    pub fn errand(&self) -> Option<&Errand> {
        match &self.state.stage {
            Stage::Review { errand, .. } | Stage::Testing { errand, .. } => errand.as_ref(),
            _ => None,
        }
    }

    /// The pending offer, of a run or an errand.
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
    /// The lease of an assigned errand.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            ErrandState::Held { lease, .. } => Some(lease),
            ErrandState::Waiting { .. } | ErrandState::Dispatched { .. } => None,
        }
    }
}

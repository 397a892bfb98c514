//! Events that change a job.

use crate::ids::{DispatchSeq, Epoch, Generation, JobId};
use crate::lease::{Checkpoint, Dispatch, Lease, Preemption};
use crate::merge_conflict::MergeConflict;
use crate::names::{CommitSha, EngineName, FactoryId};
use crate::reason::FailureReason;
use crate::retry::RetryDecision;
use crate::review::Review;
use crate::run::{Evidence, RunInsights};
use crate::time::Timestamp;
use crate::usage_window::UsageWindow;

/// The proof of a lease that a worker presents: its epoch, and the factory of its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The epoch of the lease.
    pub epoch: Epoch,
    /// The factory of the token.
    pub factory: FactoryId,
}

/// A holder's report of completed work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Completion {
    /// The commit to promote; `None` if the job has no repository or no changes.
    pub sha: Option<CommitSha>,
    /// Cost and size of the change.
    pub insights: RunInsights,
    /// Results of the prepare and verify commands.
    pub evidence: Vec<Evidence>,
    /// The engine's final message.
    pub message: Option<String>,
    /// The checkpoint for a rework.
    pub checkpoint: Option<Checkpoint>,
    /// Text for the pull request.
    pub request_text: Option<String>,
}

/// A holder's report of a failed attempt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FailureDetails {
    /// Cost and size of the change.
    pub insights: RunInsights,
    /// Results of the commands, including the failed one.
    pub evidence: Vec<Evidence>,
    /// Details for people.
    pub message: Option<String>,
    /// Whether the agent finished without changing any file.
    pub no_changes: bool,
}

/// How an offer ended without a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfferEnd {
    /// The target was not connected. Counts towards `undeliverable`.
    Undelivered,
    /// The target was connected and did not answer. This is the target's fault, not the job's (row 33).
    Unanswered,
    /// The target declined it.
    Declined(String),
    /// The coordinator withdrew it: the product is paused or waits for money. Nobody is at fault.
    Withdrawn(String),
}

/// An event that changes a job.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each field is the value that its variant speaks of")]
pub enum StageEvent {
    /// The dependencies are met, or the question was answered.
    Unblocked,
    /// A dependency failed, and the job fails with it.
    DepFailed { dep: JobId },
    /// An operator adds children, and the job waits for them.
    ChildrenAdded { count: usize },
    /// The agent of the holder creates a subtask: a child that the job does not wait for until its agent does.
    SubtaskAdded { holder: Holder, subtask: JobId, title: String },
    /// The agent of the holder waits for its subtasks, without a seat.
    SubtasksAwaited { holder: Holder, account: FailureDetails },
    /// The children of a composite have shipped.
    ChildrenShipped { count: usize },
    /// The coordinator offers the job, or its errand, to a factory.
    Dispatched { dispatch: Dispatch },
    /// The target declined the offer, or did not accept it in time.
    DispatchExpired { seq: DispatchSeq, why: OfferEnd, verdict: RetryDecision },
    /// The target accepted the offer.
    Granted { lease: Lease },
    /// The engine started.
    Started { holder: Holder, engine: EngineName },
    /// Work in progress was saved.
    Checkpointed { holder: Holder, checkpoint: Checkpoint },
    /// The work is completed and verified. `promote` is the holder's lease for the promotion.
    Completed { holder: Holder, completion: Completion, promote_until: Timestamp },
    /// The agent asks a question.
    Asked { holder: Holder, question: String, account: FailureDetails },
    /// The engine's usage window is exhausted. The window belongs to the credential: another one may take the job at
    /// once. Repeated releases increase the backoff.
    QuotaHit { holder: Holder, window: UsageWindow, account: FailureDetails, not_before: Option<Timestamp> },
    /// The holder releases the job. Repeated releases increase the backoff.
    Released { holder: Holder, message: Option<String>, insights: RunInsights, not_before: Option<Timestamp> },
    /// The attempt failed; `verdict` is the coordinator's retry decision.
    AttemptFailed { holder: Holder, reason: FailureReason, account: FailureDetails, verdict: RetryDecision },
    /// The lease expired: no heartbeat from the holder.
    Reaped { epoch: Epoch, verdict: RetryDecision },
    /// The coordinator asks the holder to give up its seat for a critical job.
    PreemptionRequested { preemption: Preemption },
    /// The holder did not give up its seat in time: the lease is revoked.
    Preempted { epoch: Epoch },
    /// A factory accepted the errand.
    ErrandGranted { lease: Lease, until: Timestamp },
    /// The errand is done.
    ErrandDone { holder: Holder },
    /// The errand failed. Without `retry_at` it is not retried. `conflict` is set for a merge conflict.
    ErrandFailed { holder: Holder, message: String, retry_at: Option<Timestamp>, conflict: Option<MergeConflict> },
    /// The errand was postponed. This does not count as a failure.
    ErrandPutOff { holder: Holder, message: String, retry_at: Timestamp },
    /// The target declined the errand, or missed the deadline to accept or report.
    ErrandExpired { epoch: Epoch, seq: DispatchSeq, message: String },
    /// A user or a policy requests the merge.
    ShipRequested,
    /// The pull request was merged on the forge.
    Merged { merge: Option<CommitSha>, message: Option<String> },
    /// An operator requests a review of the completed work, or a stricter one.
    ReviewRequested { ballot: Review, message: Option<String> },
    /// No answer came before the question expired.
    QuestionExpired { message: String },
    /// The review quorum is reached.
    Approved,
    /// A reviewer requests changes.
    ChangesRequested { message: Option<String> },
    /// A reviewer rejects the work.
    Rejected { message: Option<String> },
    /// A user cancels the job.
    Cancelled { message: Option<String> },
    /// An operator requeues it, with a message for the agent.
    Requeued { checkpoint: KeepCheckpoint, message: Option<String> },
    /// The store was restored from a backup: lease and offer belong to the lost history.
    Restored { generation: Generation },
}

/// Whether saved work survives a requeue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepCheckpoint {
    /// The next holder resumes from it.
    Keep,
    /// The next holder starts from the base branch.
    Drop,
}

impl StageEvent {
    /// The lease that a worker must present for this event; `None` for events of the coordinator or a user.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Started { holder, .. }
            | Self::Checkpointed { holder, .. }
            | Self::Completed { holder, .. }
            | Self::Asked { holder, .. }
            | Self::SubtaskAdded { holder, .. }
            | Self::SubtasksAwaited { holder, .. }
            | Self::QuotaHit { holder, .. }
            | Self::Released { holder, .. }
            | Self::AttemptFailed { holder, .. }
            | Self::ErrandDone { holder }
            | Self::ErrandFailed { holder, .. }
            | Self::ErrandPutOff { holder, .. } => Some(holder),
            Self::Unblocked
            | Self::DepFailed { .. }
            | Self::ChildrenAdded { .. }
            | Self::ChildrenShipped { .. }
            | Self::Dispatched { .. }
            | Self::DispatchExpired { .. }
            | Self::Granted { .. }
            | Self::Reaped { .. }
            | Self::PreemptionRequested { .. }
            | Self::Preempted { .. }
            | Self::ErrandGranted { .. }
            | Self::ErrandExpired { .. }
            | Self::ShipRequested
            | Self::Merged { .. }
            | Self::ReviewRequested { .. }
            | Self::QuestionExpired { .. }
            | Self::Approved
            | Self::ChangesRequested { .. }
            | Self::Rejected { .. }
            | Self::Cancelled { .. }
            | Self::Requeued { .. }
            | Self::Restored { .. } => None,
        }
    }

    /// The epoch that the event is conditional on. Writes of the reaper are fenced too.
    pub fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Reaped { epoch, .. } | Self::Preempted { epoch } | Self::ErrandExpired { epoch, .. } => Some(*epoch),
            Self::PreemptionRequested { preemption } => Some(preemption.epoch),
            event => event.holder().map(|holder| holder.epoch),
        }
    }

    /// The event as a past participle, for refusals.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unblocked => "unblocked",
            Self::DepFailed { .. } => "failed by a dependency",
            Self::ChildrenAdded { .. } => "given children",
            Self::SubtaskAdded { .. } => "given a subtask",
            Self::SubtasksAwaited { .. } => "parked for its subtasks",
            Self::ChildrenShipped { .. } => "shipped by its children",
            Self::Dispatched { .. } => "dispatched",
            Self::DispatchExpired { .. } => "withdrawn from its target",
            Self::Granted { .. } => "granted",
            Self::Started { .. } => "started",
            Self::Checkpointed { .. } => "checkpointed",
            Self::Completed { .. } => "completed",
            Self::Asked { .. } => "paused for a question",
            Self::QuotaHit { .. } => "released for a usage limit",
            Self::Released { .. } => "released",
            Self::AttemptFailed { .. } => "failed by its factory",
            Self::Reaped { .. } => "reaped",
            Self::PreemptionRequested { .. } => "asked for its seat",
            Self::Preempted { .. } => "preempted",
            Self::ErrandGranted { .. } => "assigned for promotion or shipping",
            Self::ErrandDone { .. } => "promoted or shipped",
            Self::ErrandFailed { .. } => "failed in promotion or shipping",
            Self::ErrandPutOff { .. } => "postponed in promotion or shipping",
            Self::ErrandExpired { .. } => "timed out in promotion or shipping",
            Self::ShipRequested => "shipped",
            Self::Merged { .. } => "merged on the forge",
            Self::ReviewRequested { .. } => "sent to review",
            Self::QuestionExpired { .. } => "failed by an unanswered question",
            Self::Approved => "approved",
            Self::ChangesRequested { .. } => "returned for changes",
            Self::Rejected { .. } => "rejected",
            Self::Cancelled { .. } => "cancelled",
            Self::Requeued { .. } => "requeued",
            Self::Restored { .. } => "restored",
        }
    }
}

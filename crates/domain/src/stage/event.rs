//! Everything that can happen to a job.

use crate::ids::{DispatchSeq, Epoch, Generation, JobId};
use crate::lease::{Checkpoint, Dispatch, Lease};
use crate::merge_conflict::MergeConflict;
use crate::names::{CommitSha, EngineName, FactoryId};
use crate::reason::FailureReason;
use crate::retry::RetryDecision;
use crate::run::{Evidence, RunInsights};
use crate::time::Timestamp;
use crate::usage_window::UsageWindow;

/// What a worker shows for its right to write: its epoch, and the factory that its token names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The epoch it was given.
    pub epoch: Epoch,
    /// Who it is.
    pub factory: FactoryId,
}

/// What a holder reports when its work is done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Completion {
    /// The commit to promote; none when the job has no repository or changed nothing.
    pub sha: Option<CommitSha>,
    /// What it cost and changed.
    pub insights: RunInsights,
    /// What backs it.
    pub evidence: Vec<Evidence>,
    /// The engine's own ending, for people.
    pub message: Option<String>,
    /// What the next run goes on from, should the work be sent back.
    pub checkpoint: Option<Checkpoint>,
    /// The text for its pull request.
    pub request_text: Option<String>,
}

/// What a holder reports when its attempt failed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FailureDetails {
    /// What it cost and changed.
    pub insights: RunInsights,
    /// What backs it: the command that failed.
    pub evidence: Vec<Evidence>,
    /// Why, in words for people.
    pub message: Option<String>,
    /// Whether the agent finished without changing any file.
    pub no_changes: bool,
}

/// How an offer ended without a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfferEnd {
    /// Its target was not connected. Counts towards `undeliverable`.
    Undelivered,
    /// Its target was connected and did not answer: the fault is the target's, not the job's (row 33).
    Unanswered,
    /// Its target declined it, for this reason.
    Declined(String),
}

/// Everything that can happen to a job.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each field is the value that its variant speaks of")]
pub enum StageEvent {
    /// Dependencies are met, or the question was answered.
    Unblocked,
    /// A dependency failed, and the job follows it.
    DepFailed { dep: JobId },
    /// The dispatcher offers the job, or its errand, to a factory.
    Dispatched { dispatch: Dispatch },
    /// The target declined the offer, or did not accept it in time.
    DispatchExpired { seq: DispatchSeq, why: OfferEnd, verdict: RetryDecision },
    /// The target accepted.
    Granted { lease: Lease },
    /// The engine is up.
    Started { holder: Holder, engine: EngineName },
    /// Work in progress was saved.
    Checkpointed { holder: Holder, checkpoint: Checkpoint },
    /// The work is done and verified; `promote` is the holder's right to move the branch.
    Completed { holder: Holder, completion: Completion, promote_until: Timestamp },
    /// The agent asks a person.
    Asked { holder: Holder, question: String, account: FailureDetails },
    /// The engine's usage window is used up. It is the credential's: another one may take the job at once. A job that is
    /// given back again and again waits for longer each time.
    QuotaHit { holder: Holder, window: UsageWindow, account: FailureDetails, not_before: Option<Timestamp> },
    /// The holder gives the job back; one that is given back again and again waits for longer each time.
    Released { holder: Holder, message: Option<String>, insights: RunInsights, not_before: Option<Timestamp> },
    /// The holder's attempt failed; the coordinator's verdict says what follows.
    AttemptFailed { holder: Holder, reason: FailureReason, account: FailureDetails, verdict: RetryDecision },
    /// The holder was not heard of in time.
    Reaped { epoch: Epoch, verdict: RetryDecision },
    /// A more urgent job needs the seat.
    Preempted { epoch: Epoch },
    /// A factory takes the errand.
    ErrandGranted { lease: Lease, until: Timestamp },
    /// The errand is done.
    ErrandDone { holder: Holder },
    /// The errand failed; without `retry_at` it is not tried again. `conflict` is set if a merge conflict was the reason.
    ErrandFailed { holder: Holder, message: String, retry_at: Option<Timestamp>, conflict: Option<MergeConflict> },
    /// The errand cannot be done yet, through nobody's fault.
    ErrandPutOff { holder: Holder, message: String, retry_at: Timestamp },
    /// The errand's target declined it, or did not accept or report in time.
    ErrandExpired { epoch: Epoch, seq: DispatchSeq, message: String },
    /// A person or a policy asks for the merge.
    ShipRequested,
    /// Somebody merged it on the forge.
    Merged { merge: Option<CommitSha>, message: Option<String> },
    /// The reviewers agree.
    Approved,
    /// Somebody asks for changes.
    ChangesRequested { message: Option<String> },
    /// Somebody says no.
    Rejected { message: Option<String> },
    /// A person stops it.
    Cancelled { message: Option<String> },
    /// An operator requeues it, with a message for the agent.
    Requeued { checkpoint: KeepCheckpoint, message: Option<String> },
    /// The store was put back from a backup: holder and offer are of a future that is lost.
    Restored { generation: Generation },
}

/// Whether saved work survives a requeue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepCheckpoint {
    /// The next holder resumes from it.
    Keep,
    /// The next holder starts afresh.
    Drop,
}

impl StageEvent {
    /// The right that a worker must show for this event; `None` for what the coordinator or a person does.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Started { holder, .. }
            | Self::Checkpointed { holder, .. }
            | Self::Completed { holder, .. }
            | Self::Asked { holder, .. }
            | Self::QuotaHit { holder, .. }
            | Self::Released { holder, .. }
            | Self::AttemptFailed { holder, .. }
            | Self::ErrandDone { holder }
            | Self::ErrandFailed { holder, .. }
            | Self::ErrandPutOff { holder, .. } => Some(holder),
            Self::Unblocked
            | Self::DepFailed { .. }
            | Self::Dispatched { .. }
            | Self::DispatchExpired { .. }
            | Self::Granted { .. }
            | Self::Reaped { .. }
            | Self::Preempted { .. }
            | Self::ErrandGranted { .. }
            | Self::ErrandExpired { .. }
            | Self::ShipRequested
            | Self::Merged { .. }
            | Self::Approved
            | Self::ChangesRequested { .. }
            | Self::Rejected { .. }
            | Self::Cancelled { .. }
            | Self::Requeued { .. }
            | Self::Restored { .. } => None,
        }
    }

    /// The epoch that the event is conditional on, whoever causes it: the reaper's writes are fenced too.
    pub fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Reaped { epoch, .. } | Self::Preempted { epoch } | Self::ErrandExpired { epoch, .. } => Some(*epoch),
            event => event.holder().map(|holder| holder.epoch),
        }
    }

    /// The event as a past participle, for refusals.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unblocked => "unblocked",
            Self::DepFailed { .. } => "failed by a dependency",
            Self::Dispatched { .. } => "dispatched",
            Self::DispatchExpired { .. } => "taken back from its target",
            Self::Granted { .. } => "granted",
            Self::Started { .. } => "started",
            Self::Checkpointed { .. } => "checkpointed",
            Self::Completed { .. } => "completed",
            Self::Asked { .. } => "parked on a question",
            Self::QuotaHit { .. } => "given back for a usage window",
            Self::Released { .. } => "released",
            Self::AttemptFailed { .. } => "failed by its holder",
            Self::Reaped { .. } => "reaped",
            Self::Preempted { .. } => "preempted",
            Self::ErrandGranted { .. } => "taken for promotion or shipping",
            Self::ErrandDone { .. } => "promoted or shipped",
            Self::ErrandFailed { .. } => "given up for promotion or shipping",
            Self::ErrandPutOff { .. } => "put off for promotion or shipping",
            Self::ErrandExpired { .. } => "taken back from promotion or shipping",
            Self::ShipRequested => "shipped",
            Self::Merged { .. } => "merged on the forge",
            Self::Approved => "approved",
            Self::ChangesRequested { .. } => "sent back for changes",
            Self::Rejected { .. } => "rejected",
            Self::Cancelled { .. } => "cancelled",
            Self::Requeued { .. } => "requeued",
            Self::Restored { .. } => "restored",
        }
    }
}

//! The stages of a job, and the one table that says who may move it from where to where [J5].

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{DispatchSeq, Epoch, JobId};
use crate::lease::{Checkpoint, Dispatch, Errand, ErrandKind, ErrandState, Lease};
use crate::names::{CommitSha, EngineName, FactoryId};
use crate::reason::FailureReason;
use crate::refusal::Refusal;
use crate::retry::Verdict;
use crate::run::{Evidence, Insights};
use crate::spec::Review;
use crate::time::Timestamp;

/// Where a job is, with exactly the facts that hold there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase", tag = "name")]
pub enum Stage {
    /// Waits for a seat.
    Queued {
        /// The offer that is out, if any.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        dispatch: Option<Dispatch>,
        /// Backoff: not to be offered earlier.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        not_before: Option<Timestamp>,
    },
    /// Waits for other jobs or for a person.
    Blocked {
        /// What it waits for.
        on: Obstacle,
    },
    /// A factory holds it; nothing runs yet.
    Assigned {
        /// The holder's right.
        lease: Lease,
    },
    /// The agent is at work.
    Building {
        /// The holder's right.
        lease: Lease,
        /// Since when.
        started_at: Timestamp,
    },
    /// The work is done; people look at it.
    Review {
        /// Who must agree.
        ballot: Review,
        /// The promotion that may still be going on.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        errand: Option<Errand>,
    },
    /// The work is done and may ship.
    Testing {
        /// The promotion or the merge that may be going on.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        errand: Option<Errand>,
        /// The merge was asked for while the promotion was still going on.
        #[serde(default)]
        ship_wanted: bool,
    },
    /// Merged.
    Shipped,
    /// Ended badly.
    Failed {
        /// Why.
        reason: FailureReason,
    },
    /// Out of the running until a person sends it round again.
    DeadLetter {
        /// Why.
        reason: FailureReason,
    },
}

/// What a blocked job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// Its dependencies, as its manifest names them; which of them are still unmet is asked of the store.
    Deps,
    /// A person's answer to this question.
    Question(String),
}

/// The name of a stage, as people and programs see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageName {
    /// Waits for a seat.
    Queued,
    /// Waits for other jobs or for a person.
    Blocked,
    /// A factory holds it.
    Assigned,
    /// The agent is at work.
    Building,
    /// People look at the work.
    Review,
    /// The work may ship.
    Testing,
    /// Merged.
    Shipped,
    /// Ended badly.
    Failed,
    /// Out of the running.
    DeadLetter,
}

impl StageName {
    /// All of them, in the order of a job's life.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Blocked,
        Self::Assigned,
        Self::Building,
        Self::Review,
        Self::Testing,
        Self::Shipped,
        Self::Failed,
        Self::DeadLetter,
    ];

    /// The word in JSON, tables and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Blocked => "blocked",
            Self::Assigned => "assigned",
            Self::Building => "building",
            Self::Review => "review",
            Self::Testing => "testing",
            Self::Shipped => "shipped",
            Self::Failed => "failed",
            Self::DeadLetter => "dead_letter",
        }
    }

    /// Whether the job rests for good unless a person acts.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Shipped | Self::Failed | Self::DeadLetter)
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for StageName {
    type Err = UnknownStage;

    fn from_str(text: &str) -> Result<Self, UnknownStage> {
        Self::ALL
            .into_iter()
            .find(|stage| stage.as_str() == text)
            .ok_or_else(|| UnknownStage(crate::names::printable(text)))
    }
}

/// A text that names no stage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a stage: expected queued, blocked, assigned, building, review, testing, shipped, failed or dead_letter"
)]
pub struct UnknownStage(String);

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
    pub insights: Insights,
    /// What backs it.
    pub evidence: Vec<Evidence>,
    /// The engine's own ending, for people.
    pub message: Option<String>,
}

/// What a holder reports when its attempt failed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Account {
    /// What it cost and changed.
    pub insights: Insights,
    /// What backs it: the verify command that failed.
    pub evidence: Vec<Evidence>,
    /// Why, in words for people.
    pub message: Option<String>,
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
    /// Nobody accepted the offer in time.
    DispatchExpired { seq: DispatchSeq, verdict: Verdict },
    /// The target accepted.
    Granted { lease: Lease },
    /// The engine is up.
    Started { holder: Holder, engine: EngineName },
    /// Work in progress was saved.
    Checkpointed { holder: Holder, checkpoint: Checkpoint },
    /// The work is done and verified; `promote` is the holder's right to move the branch.
    Completed { holder: Holder, completion: Completion, promote_until: Timestamp },
    /// The agent asks a person.
    Asked { holder: Holder, question: String },
    /// The engine's usage window is used up until then.
    QuotaHit { holder: Holder, until: Timestamp },
    /// The holder gives the job back.
    Released { holder: Holder, message: Option<String> },
    /// The holder's attempt failed; the coordinator's verdict says what follows.
    AttemptFailed { holder: Holder, reason: FailureReason, account: Account, verdict: Verdict },
    /// The holder was not heard of in time.
    Reaped { epoch: Epoch, verdict: Verdict },
    /// A more urgent job needs the seat.
    Preempted { epoch: Epoch },
    /// A factory takes the errand.
    ErrandGranted { lease: Lease, until: Timestamp },
    /// The errand is done.
    ErrandDone { holder: Holder },
    /// The errand did not work out; without `retry_at` it is given up.
    ErrandFailed { holder: Holder, message: String, retry_at: Option<Timestamp> },
    /// The errand's offer or holder was not heard of in time.
    ErrandExpired { epoch: Epoch, seq: DispatchSeq },
    /// A person or a policy asks for the merge.
    ShipRequested,
    /// The reviewers agree.
    Approved,
    /// Somebody asks for changes.
    ChangesRequested { message: Option<String> },
    /// Somebody says no.
    Rejected { message: Option<String> },
    /// A person stops it.
    Cancelled { message: Option<String> },
    /// A person sends it round again.
    Requeued { checkpoint: KeepCheckpoint },
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
            | Self::ErrandFailed { holder, .. } => Some(holder),
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
            | Self::Approved
            | Self::ChangesRequested { .. }
            | Self::Rejected { .. }
            | Self::Cancelled { .. }
            | Self::Requeued { .. } => None,
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
            Self::QuotaHit { .. } => "parked on a usage window",
            Self::Released { .. } => "released",
            Self::AttemptFailed { .. } => "failed by its holder",
            Self::Reaped { .. } => "reaped",
            Self::Preempted { .. } => "preempted",
            Self::ErrandGranted { .. } => "taken for promotion or shipping",
            Self::ErrandDone { .. } => "promoted or shipped",
            Self::ErrandFailed { .. } => "given up for promotion or shipping",
            Self::ErrandExpired { .. } => "taken back from promotion or shipping",
            Self::ShipRequested => "shipped",
            Self::Approved => "approved",
            Self::ChangesRequested { .. } => "sent back for changes",
            Self::Rejected { .. } => "rejected",
            Self::Cancelled { .. } => "cancelled",
            Self::Requeued { .. } => "requeued",
        }
    }
}

/// What the table needs to know of the job besides its stage.
pub(crate) struct Circumstances<'a> {
    /// When the event happens.
    pub(crate) at: Timestamp,
    /// The review that the manifest asks for.
    pub(crate) review: Option<&'a Review>,
    /// The commit that was completed.
    pub(crate) completed: Option<&'a CommitSha>,
    /// The epoch after the current one.
    pub(crate) next_epoch: Epoch,
}

impl Stage {
    /// The stage's name.
    pub fn name(&self) -> StageName {
        match self {
            Self::Queued { .. } => StageName::Queued,
            Self::Blocked { .. } => StageName::Blocked,
            Self::Assigned { .. } => StageName::Assigned,
            Self::Building { .. } => StageName::Building,
            Self::Review { .. } => StageName::Review,
            Self::Testing { .. } => StageName::Testing,
            Self::Shipped => StageName::Shipped,
            Self::Failed { .. } => StageName::Failed,
            Self::DeadLetter { .. } => StageName::DeadLetter,
        }
    }

    /// A job that waits for a seat from now on.
    pub(crate) fn waiting(not_before: Option<Timestamp>) -> Self {
        Self::Queued { dispatch: None, not_before }
    }

    /// The whole table of legal moves.
    pub(crate) fn apply(self, event: &StageEvent, around: &Circumstances<'_>) -> Result<Self, Refusal> {
        use StageEvent as E;
        match (self, event) {
            (Self::Blocked { .. }, E::Unblocked) => Ok(Self::waiting(None)),
            (Self::Blocked { on: Obstacle::Deps }, E::DepFailed { .. }) => {
                Ok(Self::Failed { reason: FailureReason::DepFailed })
            }

            (Self::Queued { dispatch: None, not_before }, E::Dispatched { dispatch }) => {
                Ok(Self::Queued { dispatch: Some(dispatch.clone()), not_before })
            }
            (Self::Queued { dispatch: Some(offer), .. }, E::DispatchExpired { seq, verdict }) if offer.seq == *seq => {
                Ok(verdict.stage())
            }
            (Self::Queued { dispatch, .. }, E::Granted { lease }) => {
                accept(dispatch, lease)?;
                Ok(Self::Assigned { lease: lease.clone() })
            }
            (Self::Assigned { .. } | Self::Building { .. }, E::Granted { .. }) => Err(Refusal::AlreadyGranted),

            (Self::Assigned { lease }, E::Started { .. }) => Ok(Self::Building { lease, started_at: around.at }),
            (stage @ (Self::Assigned { .. } | Self::Building { .. }), E::Checkpointed { .. }) => Ok(stage),
            (Self::Building { lease, .. }, E::Completed { completion, promote_until, .. }) => {
                let errand = completion.sha.clone().map(|sha| Errand {
                    kind: ErrandKind::Promote,
                    sha,
                    state: ErrandState::Held {
                        lease: Lease { epoch: around.next_epoch, ..lease },
                        until: *promote_until,
                    },
                    tries: 0,
                });
                Ok(match around.review {
                    Some(ballot) => Self::Review { ballot: ballot.clone(), errand },
                    None => Self::Testing { errand, ship_wanted: false },
                })
            }
            (Self::Building { .. }, E::Asked { question, .. }) => {
                Ok(Self::Blocked { on: Obstacle::Question(question.clone()) })
            }
            (Self::Building { .. }, E::QuotaHit { until, .. }) => Ok(Self::waiting(Some(*until))),
            (Self::Assigned { .. } | Self::Building { .. }, E::Released { .. } | E::Preempted { .. }) => {
                Ok(Self::waiting(None))
            }
            (
                Self::Assigned { .. } | Self::Building { .. },
                E::AttemptFailed { verdict, .. } | E::Reaped { verdict, .. },
            ) => Ok(verdict.stage()),

            (Self::Review { errand, .. }, E::Approved) => Ok(Self::Testing { errand, ship_wanted: false }),
            (Self::Review { ballot, errand: Some(errand) }, event) if is_errand(event) => {
                Ok(Self::Review { ballot, errand: errand.apply(event)? })
            }
            (Self::Testing { errand: Some(errand), ship_wanted }, event) if is_errand(event) => {
                Self::Testing { errand: None, ship_wanted }.after_errand(errand, event)
            }
            (Self::Testing { errand: None, .. }, E::ShipRequested) => Ok(match around.completed {
                Some(sha) => {
                    let errand = Some(Errand::waiting(ErrandKind::Ship, sha.clone()));
                    Self::Testing { errand, ship_wanted: false }
                }
                // Without a repository there is nothing to merge: asking is enough.
                None => Self::Shipped,
            }),
            (Self::Testing { errand: Some(errand), .. }, E::ShipRequested) if errand.kind == ErrandKind::Promote => {
                Ok(Self::Testing { errand: Some(errand), ship_wanted: true })
            }
            (Self::Review { .. } | Self::Testing { .. }, E::ChangesRequested { .. }) => Ok(Self::waiting(None)),
            (Self::Review { .. } | Self::Testing { .. }, E::Rejected { .. }) => {
                Ok(Self::Failed { reason: FailureReason::Rejected })
            }

            (Self::Failed { .. } | Self::DeadLetter { .. }, E::Requeued { .. }) => Ok(Self::waiting(None)),
            (stage, E::Cancelled { .. }) if !stage.name().is_terminal() => {
                Ok(Self::Failed { reason: FailureReason::Cancelled })
            }
            (stage, event) => Err(stage.illegal(event)),
        }
    }

    /// What becomes of a job under test when its errand moves on.
    fn after_errand(self, errand: Errand, event: &StageEvent) -> Result<Self, Refusal> {
        let (kind, sha) = (errand.kind, errand.sha.clone());
        let Self::Testing { ship_wanted, .. } = self else { return Ok(self) };
        let errand = errand.apply(event)?;
        let done = errand.is_none() && matches!(event, StageEvent::ErrandDone { .. });
        Ok(match kind {
            ErrandKind::Ship if done => Self::Shipped,
            ErrandKind::Promote if done && ship_wanted => {
                Self::Testing { errand: Some(Errand::waiting(ErrandKind::Ship, sha)), ship_wanted: false }
            }
            ErrandKind::Promote | ErrandKind::Ship => Self::Testing { errand, ship_wanted },
        })
    }

    fn illegal(&self, event: &StageEvent) -> Refusal {
        Refusal::IllegalTransition { stage: self.name(), event: event.name(), allowed: self.name().moves().to_vec() }
    }
}

impl StageName {
    /// Where a job can go from here: what a refusal names. The golden grid proves that it says the same as the table.
    pub fn moves(self) -> &'static [Self] {
        match self {
            Self::Queued => &[Self::Assigned, Self::Failed, Self::DeadLetter],
            Self::Blocked => &[Self::Queued, Self::Failed],
            Self::Assigned => &[Self::Queued, Self::Building, Self::Failed, Self::DeadLetter],
            Self::Building => {
                &[Self::Queued, Self::Blocked, Self::Review, Self::Testing, Self::Failed, Self::DeadLetter]
            }
            Self::Review => &[Self::Queued, Self::Testing, Self::Failed],
            Self::Testing => &[Self::Queued, Self::Shipped, Self::Failed],
            Self::Shipped => &[],
            Self::Failed | Self::DeadLetter => &[Self::Queued],
        }
    }
}

/// Whether the offer that a factory accepts is the one that stands, and was made to it.
fn accept(offer: Option<Dispatch>, lease: &Lease) -> Result<(), Refusal> {
    match offer {
        Some(offer) if offer.seq != lease.seq => {
            Err(Refusal::SupersededDispatch { shown: lease.seq, current: Some(offer.seq) })
        }
        Some(offer) if offer.target != lease.factory => Err(Refusal::NotTarget { target: offer.target }),
        Some(_) => Ok(()),
        None => Err(Refusal::SupersededDispatch { shown: lease.seq, current: None }),
    }
}

fn is_errand(event: &StageEvent) -> bool {
    matches!(
        event,
        StageEvent::Dispatched { .. }
            | StageEvent::ErrandGranted { .. }
            | StageEvent::ErrandDone { .. }
            | StageEvent::ErrandFailed { .. }
            | StageEvent::ErrandExpired { .. }
    )
}

impl Errand {
    /// An errand that nobody was asked for yet.
    pub fn waiting(kind: ErrandKind, sha: CommitSha) -> Self {
        Self { kind, sha, state: ErrandState::Waiting { not_before: None }, tries: 0 }
    }

    /// The errand after `event`; `None` when it is over.
    fn apply(self, event: &StageEvent) -> Result<Option<Self>, Refusal> {
        use StageEvent as E;
        let tries = self.tries;
        let in_state = |state| Some(Self { state, tries, ..self.clone() });
        match (&self.state, event) {
            (ErrandState::Waiting { .. }, E::Dispatched { dispatch }) => {
                Ok(in_state(ErrandState::Dispatched { dispatch: dispatch.clone() }))
            }
            (ErrandState::Dispatched { dispatch }, E::ErrandGranted { lease, until }) => {
                accept(Some(dispatch.clone()), lease)?;
                Ok(in_state(ErrandState::Held { lease: lease.clone(), until: *until }))
            }
            (ErrandState::Held { .. }, E::ErrandGranted { .. }) => Err(Refusal::AlreadyGranted),
            (ErrandState::Waiting { .. }, E::ErrandGranted { lease, .. }) => {
                Err(Refusal::SupersededDispatch { shown: lease.seq, current: None })
            }
            (ErrandState::Held { .. }, E::ErrandDone { .. }) => Ok(None),
            (ErrandState::Held { .. }, E::ErrandFailed { retry_at: Some(at), .. }) => {
                Ok(Some(Self { state: ErrandState::Waiting { not_before: Some(*at) }, tries: tries + 1, ..self }))
            }
            (ErrandState::Held { .. }, E::ErrandFailed { retry_at: None, .. }) => Ok(None),
            // Only tries that were reported count: a factory that died says nothing about the merge.
            (ErrandState::Dispatched { dispatch }, E::ErrandExpired { seq, .. }) if dispatch.seq == *seq => {
                Ok(in_state(ErrandState::Waiting { not_before: None }))
            }
            (ErrandState::Held { lease, .. }, E::ErrandExpired { seq, .. }) if lease.seq == *seq => {
                Ok(in_state(ErrandState::Waiting { not_before: None }))
            }
            (_, event) => Err(Refusal::IllegalTransition {
                stage: StageName::Testing,
                event: event.name(),
                allowed: StageName::Testing.moves().to_vec(),
            }),
        }
    }
}

//! The stages of a job and the transition table [J5].

mod errand;
mod event;
mod name;

use serde::{Deserialize, Serialize};

pub use event::{Completion, FailureDetails, Holder, KeepCheckpoint, OfferEnd, StageEvent};
pub use name::{StageName, UnknownStage};

use crate::ids::Epoch;
use crate::lease::{Dispatch, Errand, ErrandKind, ErrandState, Lease};
use crate::names::CommitSha;
use crate::reason::FailureReason;
use crate::refusal::Refusal;
use crate::review::Review;
use crate::spec::Kind;
use crate::time::Timestamp;
use errand::is_errand;

/// The stage of a job, with the data of that stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase", tag = "name")]
pub enum Stage {
    /// Waits for a seat.
    Queued {
        /// The pending offer, if any.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        dispatch: Option<Dispatch>,
        /// End of the backoff.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        not_before: Option<Timestamp>,
    },
    /// Waits for other jobs or for an answer.
    Blocked {
        /// The cause.
        on: BlockedOn,
    },
    /// A factory holds the lease; the engine has not started.
    Assigned {
        /// The lease.
        lease: Lease,
    },
    /// The agent is running.
    Building {
        /// The lease.
        lease: Lease,
        /// When the engine started.
        started_at: Timestamp,
    },
    /// The work is completed and waits for review.
    Review {
        /// The required review.
        ballot: Review,
        /// The promotion, if it is in progress.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        errand: Option<Errand>,
    },
    /// Verified, ready to ship.
    Testing {
        /// The promotion or merge, if it is in progress.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        errand: Option<Errand>,
        /// Whether the merge was requested during the promotion.
        #[serde(default)]
        ship_wanted: bool,
    },
    /// Merged.
    Shipped,
    /// Ended without success.
    Failed {
        /// The reason.
        reason: FailureReason,
    },
    /// Not retried until an operator requeues it.
    DeadLetter {
        /// The reason.
        reason: FailureReason,
    },
}

/// The cause of a blocked job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockedOn {
    /// Dependencies of the manifest, or children. The store knows which are unmet.
    Deps,
    /// A question of the agent.
    Question(String),
}

/// Data of the job that the transition table needs.
pub(crate) struct JobContext<'a> {
    /// Time of the event.
    pub(crate) at: Timestamp,
    /// The review required by the manifest.
    pub(crate) review: Option<&'a Review>,
    /// The completed commit.
    pub(crate) completed: Option<&'a CommitSha>,
    /// The epoch after the current one.
    pub(crate) next_epoch: Epoch,
    /// Whether it has runs of its own.
    pub(crate) kind: Kind,
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

    /// A queued job without an offer.
    pub(crate) fn waiting(not_before: Option<Timestamp>) -> Self {
        Self::Queued { dispatch: None, not_before }
    }

    /// The transition table.
    pub(crate) fn apply(self, event: &StageEvent, around: &JobContext<'_>) -> Result<Self, Refusal> {
        use StageEvent as E;
        match (self, event) {
            // A composite has no run: it follows its children, and stays blocked until they have ended.
            (Self::Blocked { .. }, E::Unblocked) if around.kind == Kind::Task => Ok(Self::waiting(None)),
            (Self::Blocked { on: BlockedOn::Deps }, E::ChildrenShipped { .. }) if around.kind == Kind::Composite => {
                Ok(Self::Shipped)
            }
            (stage @ Self::Blocked { .. }, E::ChildrenAdded { .. }) => Ok(stage),
            (Self::Queued { .. }, E::ChildrenAdded { .. }) => Ok(Self::Blocked { on: BlockedOn::Deps }),
            (Self::Blocked { on: BlockedOn::Deps }, E::DepFailed { .. }) => {
                Ok(Self::Failed { reason: FailureReason::DepFailed })
            }
            (Self::Blocked { on: BlockedOn::Question(_) }, E::QuestionExpired { .. }) => {
                Ok(Self::Failed { reason: FailureReason::Timeout })
            }

            (Self::Queued { dispatch: None, not_before }, E::Dispatched { dispatch }) => {
                Ok(Self::Queued { dispatch: Some(dispatch.clone()), not_before })
            }
            (Self::Queued { dispatch: Some(offer), .. }, E::DispatchExpired { seq, verdict, .. })
                if offer.seq == *seq =>
            {
                Ok(verdict.stage())
            }
            (Self::Queued { dispatch, .. }, E::Granted { lease }) => {
                accept(dispatch, lease)?;
                Ok(Self::Assigned { lease: lease.clone() })
            }
            (Self::Assigned { .. } | Self::Building { .. }, E::Granted { .. }) => Err(Refusal::AlreadyGranted),

            (Self::Assigned { lease }, E::Started { .. }) => Ok(Self::Building { lease, started_at: around.at }),
            (
                stage @ (Self::Assigned { .. } | Self::Building { .. }),
                E::Checkpointed { .. } | E::PreemptionRequested { .. } | E::SubtaskAdded { .. },
            ) => Ok(stage),
            (Self::Building { lease, .. }, E::Completed { completion, promote_until, .. }) => {
                let errand = completion.sha.clone().map(|sha| Errand {
                    kind: ErrandKind::Promote,
                    sha,
                    state: ErrandState::Held {
                        lease: Lease { epoch: around.next_epoch, ..lease },
                        until: *promote_until,
                    },
                    tries: 0,
                    put_offs: 0,
                });
                Ok(match around.review {
                    Some(ballot) => Self::Review { ballot: ballot.clone(), errand },
                    None => Self::Testing { errand, ship_wanted: false },
                })
            }
            (Self::Building { .. }, E::Asked { question, .. }) => {
                Ok(Self::Blocked { on: BlockedOn::Question(question.clone()) })
            }
            (Self::Building { .. }, E::SubtasksAwaited { .. }) => Ok(Self::Blocked { on: BlockedOn::Deps }),
            (Self::Assigned { .. } | Self::Building { .. }, E::Preempted { .. }) => Ok(Self::waiting(None)),
            (Self::Building { .. }, E::QuotaHit { not_before, .. })
            | (Self::Assigned { .. } | Self::Building { .. }, E::Released { not_before, .. }) => {
                Ok(Self::waiting(*not_before))
            }
            (
                Self::Assigned { .. } | Self::Building { .. },
                E::AttemptFailed { verdict, .. } | E::Reaped { verdict, .. },
            ) => Ok(verdict.stage()),

            (Self::Review { errand, .. }, E::ReviewRequested { ballot, .. }) => {
                Ok(Self::Review { ballot: ballot.clone(), errand })
            }
            (Self::Testing { errand, .. }, E::ReviewRequested { ballot, .. })
                if errand.as_ref().is_none_or(|errand| errand.kind == ErrandKind::Promote) =>
            {
                Ok(Self::Review { ballot: ballot.clone(), errand })
            }
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
                // Without a commit there is nothing to merge: the request ships the job.
                None => Self::Shipped,
            }),
            (Self::Testing { errand: Some(errand), .. }, E::ShipRequested) if errand.kind == ErrandKind::Promote => {
                Ok(Self::Testing { errand: Some(errand), ship_wanted: true })
            }
            // A merge on the forge happened, whether or not the review was complete. It is no approval.
            (Self::Review { .. } | Self::Testing { .. }, E::Merged { .. }) => Ok(Self::Shipped),
            (Self::Review { .. } | Self::Testing { .. }, E::ChangesRequested { .. }) => Ok(Self::waiting(None)),
            (Self::Review { .. } | Self::Testing { .. }, E::Rejected { .. }) => {
                Ok(Self::Failed { reason: FailureReason::Rejected })
            }

            (Self::Failed { .. } | Self::DeadLetter { .. }, E::Requeued { .. }) if around.kind == Kind::Composite => {
                Ok(Self::Blocked { on: BlockedOn::Deps })
            }
            // Requeueing a queued job discards its saved work and withdraws its offer.
            (Self::Failed { .. } | Self::DeadLetter { .. }, E::Requeued { .. })
            | (Self::Queued { .. }, E::Requeued { checkpoint: KeepCheckpoint::Drop, .. }) => Ok(Self::waiting(None)),
            (stage, E::Cancelled { .. }) if !stage.name().is_terminal() => {
                Ok(Self::Failed { reason: FailureReason::Cancelled })
            }
            (stage, E::Restored { .. }) => Ok(stage.restored()),
            (stage, event) => Err(stage.illegal(event)),
        }
    }

    /// The stage without its lease or offer. Completed work stays completed.
    fn restored(self) -> Self {
        let again = |errand: Option<Errand>| {
            errand.map(|errand| match errand.state {
                ErrandState::Waiting { .. } => errand,
                ErrandState::Dispatched { .. } | ErrandState::Held { .. } => {
                    Errand { state: ErrandState::Waiting { not_before: None }, ..errand }
                }
            })
        };
        match self {
            Self::Queued { not_before, .. } => Self::waiting(not_before),
            Self::Assigned { .. } | Self::Building { .. } => Self::waiting(None),
            Self::Review { ballot, errand } => Self::Review { ballot, errand: again(errand) },
            Self::Testing { errand, ship_wanted } => Self::Testing { errand: again(errand), ship_wanted },
            stage @ (Self::Blocked { .. } | Self::Shipped | Self::Failed { .. } | Self::DeadLetter { .. }) => stage,
        }
    }

    /// The testing stage after an event of its errand.
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

/// Checks that a lease accepts the current offer and comes from its target.
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

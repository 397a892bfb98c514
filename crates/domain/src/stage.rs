//! The stages of a job, and the one table that says who may move it from where to where [J5].

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
use crate::spec::Review;
use crate::time::Timestamp;
use errand::is_errand;

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
        on: BlockedOn,
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
pub enum BlockedOn {
    /// Its dependencies, as its manifest names them; which of them are still unmet is asked of the store.
    Deps,
    /// A person's answer to this question.
    Question(String),
}

/// What the table needs to know of the job besides its stage.
pub(crate) struct JobContext<'a> {
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
    pub(crate) fn apply(self, event: &StageEvent, around: &JobContext<'_>) -> Result<Self, Refusal> {
        use StageEvent as E;
        match (self, event) {
            (Self::Blocked { .. }, E::Unblocked) => Ok(Self::waiting(None)),
            (Self::Blocked { on: BlockedOn::Deps }, E::DepFailed { .. }) => {
                Ok(Self::Failed { reason: FailureReason::DepFailed })
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
            (Self::Assigned { .. } | Self::Building { .. }, E::Preempted { .. }) => Ok(Self::waiting(None)),
            (Self::Building { .. }, E::QuotaHit { not_before, .. })
            | (Self::Assigned { .. } | Self::Building { .. }, E::Released { not_before, .. }) => {
                Ok(Self::waiting(*not_before))
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
                // Without a commit there is nothing to merge: asking is enough.
                None => Self::Shipped,
            }),
            (Self::Testing { errand: Some(errand), .. }, E::ShipRequested) if errand.kind == ErrandKind::Promote => {
                Ok(Self::Testing { errand: Some(errand), ship_wanted: true })
            }
            (Self::Testing { .. }, E::Merged { .. }) => Ok(Self::Shipped),
            (Self::Review { .. } | Self::Testing { .. }, E::ChangesRequested { .. }) => Ok(Self::waiting(None)),
            (Self::Review { .. } | Self::Testing { .. }, E::Rejected { .. }) => {
                Ok(Self::Failed { reason: FailureReason::Rejected })
            }

            // A queued job is requeued to discard its saved work: an offer that is out is withdrawn.
            (Self::Failed { .. } | Self::DeadLetter { .. }, E::Requeued { .. })
            | (Self::Queued { .. }, E::Requeued { checkpoint: KeepCheckpoint::Drop, .. }) => Ok(Self::waiting(None)),
            (stage, E::Cancelled { .. }) if !stage.name().is_terminal() => {
                Ok(Self::Failed { reason: FailureReason::Cancelled })
            }
            (stage, E::Restored { .. }) => Ok(stage.restored()),
            (stage, event) => Err(stage.illegal(event)),
        }
    }

    /// The stage without anybody who holds the job or was offered it. What was completed stays so.
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

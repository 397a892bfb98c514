//! Why a change was not allowed: the caller's request is what has to change.

use crate::ids::{DispatchSeq, Epoch};
use crate::names::FactoryId;
use crate::reason::FailureReason;
use crate::stage::StageName;

/// A change that the rules do not allow. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The writer's epoch is not the job's: somebody else has taken over, or nobody holds it.
    #[error("epoch {shown} is not current, the job is at epoch {held}: stop work on it")]
    StaleEpoch {
        /// What the writer showed.
        shown: Epoch,
        /// What the job is at.
        held: Epoch,
    },
    /// The writer is not the holder.
    #[error("factory `{factory}` does not hold this job: stop work on it")]
    NotHolder {
        /// The writer.
        factory: FactoryId,
    },
    /// The table has no such move.
    #[error("a job in `{stage}` cannot be {event}; from `{stage}` it can go to: {}", allowed_list(.allowed))]
    IllegalTransition {
        /// Where the job is.
        stage: StageName,
        /// What was tried, as a past participle: "started", "shipped".
        event: &'static str,
        /// Where it could go instead.
        allowed: Vec<StageName>,
    },
    /// The offer that was accepted is not the one that stands.
    #[error("dispatch {shown} is superseded: {}", current_dispatch(.current.as_ref()))]
    SupersededDispatch {
        /// What was accepted.
        shown: DispatchSeq,
        /// What stands, if any.
        current: Option<DispatchSeq>,
    },
    /// The offer was made to another factory.
    #[error("this dispatch is for factory `{target}`")]
    NotTarget {
        /// To whom it was made.
        target: FactoryId,
    },
    /// Another claim already won this dispatch.
    #[error("this dispatch was already accepted under another nonce")]
    AlreadyGranted,
    /// A dependency is not met (any more).
    #[error("a dependency is not met: {0}")]
    DepsUnmet(crate::ids::JobId),
    /// The job has no repository.
    #[error("the job has no repository: there is nothing to ship")]
    NothingToShip,
    /// A reason that only the coordinator may give.
    #[error("`{0}` is not a reason that a worker can give")]
    NotAWorkersReason(FailureReason),
}

fn allowed_list(allowed: &[StageName]) -> String {
    if allowed.is_empty() {
        return "nowhere, it is final".to_owned();
    }
    allowed.iter().map(|stage| format!("`{stage}`")).collect::<Vec<_>>().join(", ")
}

fn current_dispatch(current: Option<&DispatchSeq>) -> String {
    current.map_or_else(|| "the job has no live dispatch".to_owned(), |seq| format!("the current one is {seq}"))
}

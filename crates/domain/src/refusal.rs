//! Refusals: changes that the rules reject.

use crate::ids::{DispatchSeq, Epoch};
use crate::names::{CommitSha, FactoryId};
use crate::reason::FailureReason;
use crate::stage::StageName;

/// A rejected change. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The writer's epoch is stale: another factory holds the job, or the lease was cleared.
    #[error("epoch {shown} is not current, the job is at epoch {held}: stop work on it")]
    StaleEpoch {
        /// The epoch that the writer presented.
        shown: Epoch,
        /// The job's epoch.
        held: Epoch,
    },
    /// The writer is not the holder.
    #[error("factory `{factory}` does not hold this job: stop work on it")]
    NotHolder {
        /// The writer.
        factory: FactoryId,
    },
    /// The transition table does not allow the event.
    #[error("a job in `{stage}` cannot be {event}; from `{stage}` it can go to: {}", allowed_list(.allowed))]
    IllegalTransition {
        /// The job's stage.
        stage: StageName,
        /// The event as a past participle: "started", "shipped".
        event: &'static str,
        /// The stages that the job can move to.
        allowed: Vec<StageName>,
    },
    /// The accepted offer is not the current one.
    #[error("dispatch {shown} is superseded: {}", current_dispatch(.current.as_ref()))]
    SupersededDispatch {
        /// The accepted dispatch.
        shown: DispatchSeq,
        /// The current dispatch, if any.
        current: Option<DispatchSeq>,
    },
    /// The offer was made to another factory.
    #[error("this dispatch is for factory `{target}`")]
    NotTarget {
        /// The factory that has the offer.
        target: FactoryId,
    },
    /// Another claim already accepted this dispatch.
    #[error("this dispatch was already accepted with another nonce")]
    AlreadyGranted,
    /// A dependency is not met.
    #[error("a dependency is not met: {0}")]
    DepsUnmet(crate::ids::JobId),
    /// A job above it was cancelled, and the cancellation goes down the tree.
    #[error("job `{0}` above it was cancelled: requeue that one first")]
    ParentCancelled(crate::ids::JobId),
    /// The job has ended.
    #[error("the job has ended (`{stage}`): there is nothing to pause")]
    JobEnded {
        /// Its stage.
        stage: StageName,
    },
    /// An operator paused the job, or one above it.
    #[error("job `{0}` is paused")]
    JobPaused(crate::ids::JobId),
    /// A job above it is paused, and the pause goes down the tree.
    #[error("job `{0}` above it is paused: resume that one")]
    ParentPaused(crate::ids::JobId),
    /// The job has no repository.
    #[error("the job has no repository: there is nothing to ship")]
    NothingToShip,
    /// The job waits for no answer.
    #[error("the job has no open question: there is nothing to answer")]
    NoQuestion,
    /// The voter is the author of the work.
    #[error("`{person}` submitted this job, and the author of a job cannot review it: another person has to")]
    OwnWork {
        /// The voter.
        person: String,
    },
    /// The voter is not among the named reviewers.
    #[error("`{person}` is not a reviewer of this job: its reviewers are {}", reviewers.join(", "))]
    NotAReviewer {
        /// The voter.
        person: String,
        /// The reviewers.
        reviewers: Vec<String>,
    },
    /// The vote is for work that is not the job's.
    #[error("the vote is for {shown}, but the work to review is {current}: look at that one, then vote again")]
    OtherCommit {
        /// What the vote names.
        shown: String,
        /// What is to be reviewed.
        current: String,
        /// Its commit, if it has one.
        sha: Option<CommitSha>,
    },
    /// The requested review is weaker than the required one.
    #[error("a review can only be made stricter: {} required", required_review(*.quorum, reviewers))]
    WeakerReview {
        /// The required quorum.
        quorum: u32,
        /// The named reviewers; any when empty.
        reviewers: Vec<String>,
    },
    /// The job cannot keep another artifact of this size.
    #[error("{0}")]
    ArtifactLimit(String),
    /// A reason that only the coordinator may set.
    #[error("`{0}` is not a reason that a factory can report")]
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

fn required_review(quorum: u32, reviewers: &[String]) -> String {
    let approvals = crate::counted(quorum, "approval");
    let verb = if quorum == 1 { "is" } else { "are" };
    if reviewers.is_empty() {
        format!("{approvals} {verb}")
    } else {
        format!("{approvals} by {} {verb}", reviewers.join(", "))
    }
}

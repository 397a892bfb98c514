//! The right to work on a job, and the offer that precedes it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{ClaimNonce, DispatchSeq, Epoch, InstanceId, JobId};
use crate::names::{CommitSha, FactoryId, RepoIdentity};
use crate::time::Timestamp;

/// The right to work on a job: one holder and the epoch that every write of that holder must show.
///
/// When it expires is not written here: renewals live in the coordinator's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// Who holds it.
    pub factory: FactoryId,
    /// Which process of that factory.
    pub instance: InstanceId,
    /// The fence.
    pub epoch: Epoch,
    /// The nonce it was claimed with: the same nonce asks for the same answer again.
    pub nonce: ClaimNonce,
    /// The dispatch that it answers.
    pub seq: DispatchSeq,
    /// When it was granted, by the coordinator's clock.
    pub granted_at: Timestamp,
}

/// The decision "this job goes to that factory", not yet accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dispatch {
    /// Its number among the job's dispatches.
    pub seq: DispatchSeq,
    /// Who may accept it.
    pub target: FactoryId,
    /// After this it is taken back and another target is preferred.
    pub accept_by: Timestamp,
    /// The score that won, for the explanation.
    pub score: f64,
}

/// What a worker shows with every write: the job and the epoch it was given, and who its token says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The job.
    pub job: JobId,
    /// The epoch that the worker was given.
    pub epoch: Epoch,
    /// The factory that the token names; never taken from a request body.
    pub factory: FactoryId,
}

/// A short piece of work after completion: moving the pull request's branch, or merging it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Errand {
    /// What is to be done.
    pub kind: ErrandKind,
    /// The recorded commit that it is done with [I15].
    pub sha: CommitSha,
    /// How far it is.
    pub state: ErrandState,
    /// How often it was handed out before.
    pub tries: u32,
    /// How often in a row its factory put it off.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub put_offs: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// What an errand does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ErrandKind {
    /// Move the pull request's branch to the recorded commit.
    Promote,
    /// Merge the recorded commit into the base branch.
    Ship,
}

impl ErrandKind {
    /// The word in events and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Promote => "promote",
            Self::Ship => "ship",
        }
    }
}

/// How far an errand is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum ErrandState {
    /// Nobody was asked yet; `not_before` holds after a failed try.
    Waiting {
        /// Earliest time of the next try.
        #[serde(rename = "notBefore", skip_serializing_if = "Option::is_none", default)]
        not_before: Option<Timestamp>,
    },
    /// Offered to a factory.
    Dispatched {
        /// The offer.
        dispatch: Dispatch,
    },
    /// A factory is at it.
    Held {
        /// Its right to report.
        lease: Lease,
        /// After this the errand is given to another.
        until: Timestamp,
    },
}

/// A pointer to saved work in progress, kept across reassignments so that work resumes [F4].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The ref it was pushed to.
    #[serde(rename = "ref")]
    pub git_ref: String,
    /// The commit.
    pub sha: CommitSha,
    /// The engine's own session, when it can be resumed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    /// The epoch of the run that saved it.
    pub epoch: Epoch,
    /// The repository it was pushed to, as far as its factory reported one: only a factory with the same repository can
    /// resume from it, promote or merge it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repository: Option<RepoIdentity>,
}

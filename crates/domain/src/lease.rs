//! Leases, dispatches and errands.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{ClaimNonce, DispatchSeq, Epoch, InstanceId, JobId};
use crate::names::{CommitSha, EngineName, FactoryId, RepoIdentity};
use crate::time::Timestamp;

/// A lease: one holder, and the epoch that each of its writes must present.
///
/// The expiry is not stored: the coordinator keeps heartbeats in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The factory that holds it.
    pub factory: FactoryId,
    /// The process of that factory.
    pub instance: InstanceId,
    /// The epoch: writes with another one are fenced.
    pub epoch: Epoch,
    /// The nonce of the claim. A repeated claim with it gets the same answer.
    pub nonce: ClaimNonce,
    /// The dispatch that was accepted.
    pub seq: DispatchSeq,
    /// When it was granted, by the coordinator's clock.
    pub granted_at: Timestamp,
}

/// A dispatch: an offer of a job to a factory, not yet accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dispatch {
    /// Number among the job's dispatches.
    pub seq: DispatchSeq,
    /// The factory that may accept it.
    pub target: FactoryId,
    /// Deadline to accept. After it the coordinator withdraws the offer and prefers another factory.
    pub accept_by: Timestamp,
    /// The winning score, for explanations.
    pub score: f64,
}

/// A request to a holder to give up its seat for a critical job [S5].
///
/// It stays on the job after the lease ended: until `keep_until` the freed seat is kept for the critical job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preemption {
    /// The critical job.
    pub for_job: JobId,
    /// The factory of the seat.
    pub factory: FactoryId,
    /// The engine that the critical job would use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineName>,
    /// The epoch of the lease that has to end.
    pub epoch: Epoch,
    /// Deadline to save the work and to release the job. After it the coordinator revokes the lease.
    pub until: Timestamp,
    /// Until then the freed seat is kept for the critical job.
    pub keep_until: Timestamp,
}

/// The fence that a worker presents with every write: job, epoch, and the factory of its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The job.
    pub job: JobId,
    /// The epoch of the worker's lease.
    pub epoch: Epoch,
    /// The factory of the token; never read from a request body.
    pub factory: FactoryId,
}

/// An errand: a promotion or a merge given to a factory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Errand {
    /// Promotion or merge.
    pub kind: ErrandKind,
    /// The recorded commit to promote or merge [I15].
    pub sha: CommitSha,
    /// Its progress.
    pub state: ErrandState,
    /// Number of earlier attempts.
    pub tries: u32,
    /// Number of consecutive postponements by its factory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub put_offs: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The kind of an errand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ErrandKind {
    /// Move the pull request's branch to the recorded commit.
    Promote,
    /// Merge the recorded commit into the base branch.
    Ship,
}

impl ErrandKind {
    /// The name in events and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Promote => "promote",
            Self::Ship => "ship",
        }
    }
}

/// The progress of an errand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum ErrandState {
    /// Not yet offered. `not_before` is set after a failed attempt.
    Waiting {
        /// Earliest time of the next attempt.
        #[serde(rename = "notBefore", skip_serializing_if = "Option::is_none", default)]
        not_before: Option<Timestamp>,
    },
    /// Offered to a factory.
    Dispatched {
        /// The offer.
        dispatch: Dispatch,
    },
    /// A factory executes it.
    Held {
        /// The lease of the factory.
        lease: Lease,
        /// Deadline of the report. After it the errand goes to another factory.
        until: Timestamp,
    },
}

/// A pointer to saved work, kept across reassignments so that the next run resumes [F4].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The ref that the work was pushed to.
    #[serde(rename = "ref")]
    pub git_ref: String,
    /// The commit.
    pub sha: CommitSha,
    /// The engine's session id, if it can be resumed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    /// The epoch of the run that saved the work.
    pub epoch: Epoch,
    /// The repository that the work was pushed to, if the factory reported it. Only a factory with the same repository
    /// can resume, promote or merge it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repository: Option<RepoIdentity>,
}

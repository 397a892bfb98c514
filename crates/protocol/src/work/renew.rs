//! How a process keeps what it holds, and what is asked of it meanwhile.

use domain::{DispatchModes, Epoch, InstanceId, JobId, Message};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::feedback::PollPullRequest;
use crate::progress::HeldJobProgress;

/// Renews everything that one process holds, in one call [§6.4].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenewRequest {
    /// The process.
    pub instance: InstanceId,
    /// What it holds. What it leaves out twice is taken from it.
    pub held: Vec<HeldJobProgress>,
    /// How busy the machine is: 1 is all it can do.
    #[serde(default)]
    pub load: f64,
    /// Free space where worktrees live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
}

/// One job that a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldJob {
    /// The job.
    pub job_id: JobId,
    /// The fence.
    pub lease_epoch: Epoch,
}

/// The answer to a renewal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenewResponse {
    /// How long the renewed leases last, from before the request was sent.
    pub lease_ttl_ms: u64,
    /// What the process no longer holds: to be stopped now.
    pub lost: Vec<HeldJob>,
    /// What it should do.
    pub directives: Vec<Directive>,
    /// How work reaches the factory: what it has to ask for.
    #[serde(default)]
    pub modes: DispatchModes,
}

/// What a coordinator asks of a factory; also pushed through the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "op")]
pub enum Directive {
    /// Stop work on a job: an operator cancelled it, or it belongs to somebody else.
    #[serde(rename_all = "camelCase")]
    Cancel {
        /// The job.
        job_id: JobId,
        /// The epoch that is over.
        lease_epoch: Epoch,
    },
    /// Save the work and give the job back.
    #[serde(rename_all = "camelCase")]
    Preempt {
        /// The job.
        job_id: JobId,
        /// The fence.
        lease_epoch: Epoch,
    },
    /// Look at a job's pull request, and say what is there.
    Look(PollPullRequest),
    /// Take nothing new.
    Drain,
    /// Take work again.
    Resume,
}

/// What comes through a factory's inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "event", content = "data")]
pub enum InboxEvent {
    /// The stream is open.
    Hello {
        /// How work reaches the factory: what it has to ask for.
        #[serde(default)]
        modes: DispatchModes,
    },
    /// Work reaches the factory in other ways than before.
    Modes(DispatchModes),
    /// A job is offered.
    Dispatch(Message),
    /// Something is asked.
    Directive(Directive),
}

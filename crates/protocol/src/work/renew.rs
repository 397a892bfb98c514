//! Lease renewal, directives and the inbox.

use domain::{
    Capability, DispatchModes, DispatchSeq, Epoch, InstanceId, JobId, Message, Priority, ProductId, RepoName,
};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::feedback::PollPullRequest;
use crate::progress::HeldJobProgress;

/// Renews all leases of one process in one call [§6.4].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenewRequest {
    /// The process.
    pub instance: InstanceId,
    /// The held jobs. A job omitted twice loses its lease.
    pub held: Vec<HeldJobProgress>,
    /// Load of the machine: 1 is full capacity.
    #[serde(default)]
    pub load: f64,
    /// Free disk space for worktrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
}

/// A held job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldJob {
    /// The job.
    pub job_id: JobId,
    /// The epoch of the lease.
    pub lease_epoch: Epoch,
}

/// The answer to a renewal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenewResponse {
    /// Duration of the renewed leases, measured from before the request was sent.
    pub lease_ttl_ms: u64,
    /// Lost leases: the process must stop these runs now.
    pub lost: Vec<HeldJob>,
    /// Directives for the factory.
    #[serde(deserialize_with = "known_directives")]
    pub directives: Vec<Directive>,
    /// The dispatch modes: they decide which products the factory polls for.
    #[serde(default)]
    pub modes: DispatchModes,
}

/// A directive to a factory; also pushed through the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "op")]
pub enum Directive {
    /// Stop a run: an operator cancelled the job, or another factory holds it.
    #[serde(rename_all = "camelCase")]
    Cancel {
        /// The job.
        job_id: JobId,
        /// The revoked epoch.
        lease_epoch: Epoch,
    },
    /// Save the work and release the job.
    #[serde(rename_all = "camelCase")]
    Preempt {
        /// The job.
        job_id: JobId,
        /// The epoch of the lease.
        lease_epoch: Epoch,
    },
    /// Poll a job's pull request and report its state.
    Look(PollPullRequest),
    /// Drain: accept no new jobs.
    Drain,
    /// Resume: accept jobs again.
    Resume,
    /// Stop: a factory of a pool is not needed any more, and holds nothing.
    Leave,
}

/// Reads the directives that this version knows. A newer coordinator may send others: a factory that rejected the whole
/// answer for one of them would lose its leases.
pub(crate) fn known_directives<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Directive>, D::Error> {
    let sent = Vec::<serde_json::Value>::deserialize(deserializer)?;
    Ok(sent.into_iter().filter_map(|directive| serde_json::from_value(directive).ok()).collect())
}

/// An event of a factory's inbox stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "event", content = "data")]
pub enum InboxEvent {
    /// The stream is open.
    Hello {
        /// The dispatch modes: they decide which products the factory polls for.
        #[serde(default)]
        modes: DispatchModes,
    },
    /// The dispatch modes changed.
    Modes(DispatchModes),
    /// An offer of a job.
    Dispatch(Message),
    /// A job that the factory may claim by its id.
    Announcement(Announcement),
    /// A directive.
    Directive(Directive),
}

/// A waiting job of a product in self-select mode, announced to one eligible factory at a time. All fields but the id are
/// hints: the claim decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// The job.
    pub job_id: JobId,
    /// The dispatch that a claim would make.
    pub dispatch_seq: DispatchSeq,
    /// The product that owns the job.
    pub product_id: ProductId,
    /// The repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// The required capabilities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caps: Vec<Capability>,
    /// The job's priority.
    pub priority: Priority,
}

#[cfg(test)]
mod tests {
    use super::*;

    // [§6.4]
    #[test]
    fn an_unknown_directive_does_not_break_a_renewal() {
        let answer =
            r#"{"leaseTtlMs": 90000, "lost": [], "directives": [{"op": "levitate", "height": 3}, {"op": "drain"}]}"#;

        let read: RenewResponse = serde_json::from_str(answer).unwrap();

        assert_eq!(read.directives, vec![Directive::Drain]);
    }
}

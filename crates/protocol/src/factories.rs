//! Registration and status of factories.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    BrokerLogin, Capability, ClaimNonce, DispatchModes, DispatchSeq, EngineHealth, EngineName, FactoryId, InstanceId,
    JobId, PoolName, Receives, RepoIdentity, RepoName, Timestamp, UnavailableRepo,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::work::Directive;

/// Exchanges a join token for a factory token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrolRequest {
    /// The one-time token.
    pub join_token: String,
    /// The name of the new factory.
    pub factory_id: FactoryId,
    /// Random per enrolment. A repeated request with the same nonce gets the same token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<ClaimNonce>,
}

/// The token of a factory: shown once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrolResponse {
    /// The factory.
    pub factory_id: FactoryId,
    /// Its token.
    pub token: String,
}

/// A new token for a factory; the old one stays valid for a while.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RotateTokenResponse {
    /// The new token: shown once.
    pub token: String,
    /// When the old token expires.
    pub old_until: Timestamp,
}

/// A heartbeat with the factory's registration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// The process. The newest registration wins.
    pub instance: InstanceId,
    /// The capabilities.
    pub capabilities: BTreeSet<Capability>,
    /// Cloned repositories.
    #[serde(default)]
    pub repos: BTreeSet<RepoName>,
    /// Whether it can clone further repositories.
    #[serde(default)]
    pub clones: bool,
    /// Configured repositories that it cannot use at the moment. None of them is in `repos`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable_repos: BTreeMap<RepoName, UnavailableRepo>,
    /// Identity of each of `repos`: the normalised URL of its remote. Saved work goes only to factories with the same
    /// identity.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repo_identities: BTreeMap<RepoName, RepoIdentity>,
    /// Maximum number of concurrent jobs.
    pub seat_limit: u32,
    /// Maximum by engine, where lower.
    #[serde(default)]
    pub engine_seats: BTreeMap<EngineName, u32>,
    /// Maximum by repository, where lower.
    #[serde(default)]
    pub repo_seats: BTreeMap<RepoName, u32>,
    /// Relative cost of a seat, 0 to 100.
    #[serde(default)]
    pub cost: u8,
    /// Load of the machine: 1 is full capacity.
    #[serde(default)]
    pub load: f64,
    /// Free disk space for worktrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// Health of its engines, by name and credential. An engine that is not listed counts as usable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineHealth>,
    /// The program's version.
    #[serde(default)]
    pub version: String,
    /// The wire protocol's version.
    #[serde(default)]
    pub protocol: u32,
    /// The last heartbeat: the process shuts down and accepts nothing more.
    #[serde(default)]
    pub leaving: bool,
    /// How it receives its offers. Its inbox stays open in any case.
    #[serde(default)]
    pub receives: Receives,
    /// Whether it needs a login for the broker: it has none, or one that expires soon.
    #[serde(default)]
    pub wants_broker_login: bool,
    /// Shadow messages that it received from the broker since its last heartbeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shadows: Vec<ReceivedShadow>,
}

/// A shadow message that a factory received from the broker itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceivedShadow {
    /// The job.
    pub job_id: JobId,
    /// The dispatch that push mode would have made.
    pub dispatch_seq: DispatchSeq,
    /// How long the factory has had it.
    #[schema(minimum = 0)]
    pub held_ms: u64,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatResponse {
    /// The factory that the token names.
    pub factory_id: FactoryId,
    /// Interval of renewals and heartbeats.
    pub renew_every_ms: u64,
    /// Duration of leases.
    pub lease_ttl_ms: u64,
    /// Directives for the factory.
    #[serde(deserialize_with = "crate::work::known_directives")]
    pub directives: Vec<Directive>,
    /// Whether a newer process of this factory has registered: this one should stop.
    pub superseded: bool,
    /// The dispatch modes: they decide which products the factory polls for.
    #[serde(default)]
    pub modes: DispatchModes,
    /// A login for the broker, if it was asked for and factories can connect to the broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_login: Option<BrokerLogin>,
}

/// A factory and its status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactoryView {
    /// Its name.
    pub id: FactoryId,
    /// Whether the factory is connected.
    pub presence: Presence,
    /// Time of the last heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_at: Option<Timestamp>,
    /// The capabilities.
    pub capabilities: BTreeSet<Capability>,
    /// Its engines, by name and credential. `windowUntil` includes reports of other factories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineHealth>,
    /// Cloned repositories.
    pub repos: BTreeSet<RepoName>,
    /// Identity of each repository: the normalised URL of its remote.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repo_identities: BTreeMap<RepoName, RepoIdentity>,
    /// Maximum number of concurrent jobs.
    pub seat_limit: u32,
    /// The seats in use.
    pub seats: Vec<SeatsInUse>,
    /// Load of the machine: 1 is full capacity.
    pub load: f64,
    /// Success rate of recent runs: 1 is the best.
    pub health: f64,
    /// How long the last job that was dispatched to it had waited, in milliseconds; absent before its first since the
    /// start of the coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub dispatch_lag_ms: Option<u64>,
    /// Free disk space for worktrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// A draining factory gets no new jobs.
    pub draining: bool,
    /// Whether its inbox stream is open.
    pub connected: bool,
    /// Where its offers come from.
    #[serde(default)]
    pub receives: Receives,
    /// The program's version.
    pub version: String,
    /// When the factory enrolled.
    pub joined_at: Timestamp,
    /// The pool that it was started for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
}

/// Whether a factory is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// No heartbeat since the coordinator started.
    Warming,
    /// The last heartbeat is recent.
    Live,
    /// The inbox stream closed: the factory gets no offers until it reconnects. Its leases continue until they expire.
    Disconnected,
    /// The last heartbeat is too old.
    Stale,
    /// The factory shut down and gets no work until it is started again.
    Stopped,
}

/// One seat in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeatsInUse {
    /// The job; absent if the caller's token does not cover its product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// Its title.
    pub title: String,
    /// Whether it is only offered, not yet accepted.
    pub dispatched_only: bool,
}

/// All factories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactoryList {
    /// Ordered by name.
    pub items: Vec<FactoryView>,
}

/// Drains a factory, or resumes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainRequest {
    /// `true` drains the factory: it gets no new jobs.
    #[serde(default = "yes")]
    pub draining: bool,
}

fn yes() -> bool {
    true
}

/// Factories that were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PruneResponse {
    /// Their names.
    pub factories: Vec<FactoryId>,
}

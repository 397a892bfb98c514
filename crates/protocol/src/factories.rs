//! Factories as they register and as people see them.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Capability, ClaimNonce, DispatchModes, EngineHealth, EngineName, FactoryId, InstanceId, JobId, RepoIdentity,
    RepoName, Timestamp, UnavailableRepo,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::work::Directive;

/// Trades a one-time join token for a factory's own.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrolRequest {
    /// The one-time token.
    pub join_token: String,
    /// The name that the factory takes.
    pub factory_id: FactoryId,
    /// Random per enrolment: the same nonce gives the same token, so that a lost answer can be asked for again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<ClaimNonce>,
}

/// A factory's own token: shown once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrolResponse {
    /// The factory.
    pub factory_id: FactoryId,
    /// Its token.
    pub token: String,
}

/// A new token for a factory; the old one works for a while longer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RotateTokenResponse {
    /// The new token: shown once.
    pub token: String,
    /// Until when the old one works.
    pub old_until: Timestamp,
}

/// A sign of life with what the factory is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// The process. The newest registration wins.
    pub instance: InstanceId,
    /// What it can do.
    pub capabilities: BTreeSet<Capability>,
    /// Repositories that are there.
    #[serde(default)]
    pub repos: BTreeSet<RepoName>,
    /// Whether it can fetch others.
    #[serde(default)]
    pub clones: bool,
    /// Repositories that it is configured with and cannot use for now. None of them is among `repos`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable_repos: BTreeMap<RepoName, UnavailableRepo>,
    /// Which repository each of `repos` is: the normalised URL of its remote. Work that was saved in one repository goes
    /// only to factories that have the same one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repo_identities: BTreeMap<RepoName, RepoIdentity>,
    /// Jobs at one time.
    pub seat_limit: u32,
    /// By engine, where fewer.
    #[serde(default)]
    pub engine_seats: BTreeMap<EngineName, u32>,
    /// By repository, where fewer.
    #[serde(default)]
    pub repo_seats: BTreeMap<RepoName, u32>,
    /// Relative cost of a seat, 0 to 100.
    #[serde(default)]
    pub cost: u8,
    /// How busy the machine is: 1 is all it can do.
    #[serde(default)]
    pub load: f64,
    /// Free space where worktrees live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// Its engines, by name and login, as far as it could verify them. One that is offered and not listed counts as usable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineHealth>,
    /// The program's version.
    #[serde(default)]
    pub version: String,
    /// The wire protocol's version.
    #[serde(default)]
    pub protocol: u32,
    /// The last sign of life: the process is stopping, and takes nothing more.
    #[serde(default)]
    pub leaving: bool,
}

/// The answer to a sign of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatResponse {
    /// The factory that the token names.
    pub factory_id: FactoryId,
    /// How often to renew and to give a sign of life.
    pub renew_every_ms: u64,
    /// How long leases last.
    pub lease_ttl_ms: u64,
    /// What the factory should do.
    pub directives: Vec<Directive>,
    /// Whether a newer process of this factory has registered: this one should stop.
    pub superseded: bool,
    /// How work reaches the factory: what it has to ask for.
    #[serde(default)]
    pub modes: DispatchModes,
}

/// A factory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactoryView {
    /// Its name.
    pub id: FactoryId,
    /// Whether it is there.
    pub presence: Presence,
    /// When it last gave a sign of life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_at: Option<Timestamp>,
    /// What it can do.
    pub capabilities: BTreeSet<Capability>,
    /// Its engines, by name and login. `windowUntil` is what the fleet knows, not only the factory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineHealth>,
    /// Repositories that are there.
    pub repos: BTreeSet<RepoName>,
    /// Which repository each of them is: the normalised URL of its remote.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repo_identities: BTreeMap<RepoName, RepoIdentity>,
    /// Jobs at one time.
    pub seat_limit: u32,
    /// What its seats are used for.
    pub seats: Vec<SeatsInUse>,
    /// How busy the machine is.
    pub load: f64,
    /// How well its runs have gone lately: 1 is faultless.
    pub health: f64,
    /// Free space where worktrees live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// Takes nothing new.
    pub draining: bool,
    /// Whether its inbox is open.
    pub connected: bool,
    /// The program's version.
    pub version: String,
    /// When it joined.
    pub joined_at: Timestamp,
}

/// Whether a factory is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// The coordinator has just started and has not heard of it yet.
    Warming,
    /// It gave a sign of life.
    Live,
    /// Its inbox stream closed: it gets no offers until it connects again. Its leases continue until they expire.
    Disconnected,
    /// It has been silent for too long.
    Stale,
    /// It was stopped: it signed off, and gets no work until it is started again.
    Stopped,
}

/// One seat in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeatsInUse {
    /// The job; absent for a caller whose token does not cover its product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// Its title.
    pub title: String,
    /// Whether it is only offered so far.
    pub dispatched_only: bool,
}

/// All factories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactoryList {
    /// In order of name.
    pub items: Vec<FactoryView>,
}

/// Takes a factory out of service, or back in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainRequest {
    /// `true` takes nothing new.
    #[serde(default = "yes")]
    pub draining: bool,
}

fn yes() -> bool {
    true
}

/// Factories that were forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PruneResponse {
    /// Their names.
    pub factories: Vec<FactoryId>,
}

//! Documents of the fleet: factories, products, tokens. They change rarely.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::engine_health::EngineHealth;
use crate::ids::{Generation, InstanceId, SessionId, TokenId};
use crate::names::{Capability, EngineName, FactoryId, PoolName, ProductId, RepoIdentity, RepoName};
use crate::time::Timestamp;

/// Registration of a factory. Heartbeats, load and free disk space are kept in memory, not here [I14].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Factory {
    /// Its name.
    pub id: FactoryId,
    /// The process that registered last. The newest instance wins.
    pub instance: InstanceId,
    /// The capabilities that the factory reports.
    pub capabilities: BTreeSet<Capability>,
    /// Repositories that the factory has cloned.
    pub repos: BTreeSet<RepoName>,
    /// Whether the factory can clone further repositories.
    #[serde(default)]
    pub clones: bool,
    /// Maximum number of concurrent jobs.
    pub seat_limit: u32,
    /// Maximum number of concurrent jobs by engine, where lower than `seat_limit`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub engine_seats: BTreeMap<EngineName, u32>,
    /// Maximum number of concurrent jobs by repository on this factory, where lower.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repo_seats: BTreeMap<RepoName, u32>,
    /// Health of its engines [B9].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engine_health: Vec<EngineHealth>,
    /// Relative cost of a seat: 0 is free, 100 is the most expensive.
    #[serde(default)]
    pub cost: u8,
    /// A draining factory gets no new jobs.
    #[serde(default)]
    pub draining: bool,
    /// Version of the factory's program.
    #[serde(default)]
    pub version: String,
    /// When the factory first enrolled.
    pub joined_at: Timestamp,
    /// Configured repositories that the factory cannot use at the moment. It gets no jobs for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable_repos: BTreeMap<RepoName, UnavailableRepo>,
    /// Identity of each of `repos`. Two factories may use one name for different repositories.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repo_identities: BTreeMap<RepoName, RepoIdentity>,
    /// Credentials that an administrator resumed before their usage window was reset, with the latest reset that was known
    /// then: a window that the factory reports up to it is one that was resumed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resumed_windows: BTreeMap<String, Timestamp>,
    /// The pool that it was started for [F9].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
}

/// A repository whose remote the factory cannot reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnavailableRepo {
    /// The remote and its error.
    pub message: String,
    /// Since when, by the factory's clock.
    pub since: Timestamp,
}

impl Factory {
    /// The engines among its capabilities.
    pub fn engines(&self) -> impl Iterator<Item = EngineName> {
        self.capabilities.iter().filter_map(|token| token.as_str().strip_prefix("engine:")?.parse().ok())
    }

    /// The same factory without the usage windows that were resumed, and without resumed windows that are over.
    #[must_use]
    pub fn without_resumed_windows(mut self, now: Timestamp) -> Self {
        self.resumed_windows.retain(|_, until| *until > now);
        for health in &mut self.engine_health {
            let resumed = self.resumed_windows.get(&health.credential_at(&self.id));
            health.window_until = health.window_until.filter(|until| resumed.is_none_or(|resumed| until > resumed));
        }
        self
    }
}

/// A product: the tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Product {
    /// Its name.
    pub id: ProductId,
    /// The repositories that the product owns. Jobs of other products cannot use them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub repos: BTreeSet<RepoName>,
    /// A paused product starts no new runs [I10].
    #[serde(default)]
    pub paused: bool,
    /// Who paused it, when and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// Whether promoted jobs are shipped without a request.
    #[serde(default)]
    pub auto_ship: bool,
    /// Its share of the seats, relative to other products.
    #[serde(default = "one")]
    pub weight: u32,
    /// Maximum number of concurrent jobs by repository in the fleet. 1 serialises work on it [S6].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repo_seats: BTreeMap<RepoName, u32>,
    /// The weights of its placement score, where they differ from the fleet's.
    #[serde(default, skip_serializing_if = "ScoreWeights::is_empty")]
    pub score_weights: ScoreWeights,
}

/// Weights of the terms of the placement score [S3]. An absent one is the fleet's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScoreWeights {
    /// Weight of few unused capabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub capability_fit: Option<f64>,
    /// Weight of having the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub affinity: Option<f64>,
    /// Weight of low load.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub idleness: Option<f64>,
    /// Weight of low cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub cost_fit: Option<f64>,
    /// Weight of successful runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub health: Option<f64>,
    /// Weight of the penalty for jobs that started to wait recently.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub starvation_penalty: Option<f64>,
}

impl ScoreWeights {
    /// The largest weight: larger ones would make the other terms meaningless.
    pub const MAX: f64 = 100.0;

    /// The terms, as they are named in commands.
    pub const TERMS: [&'static str; 6] = ["fit", "affinity", "idle", "cost", "health", "wait"];

    /// Whether no weight is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The weights in the order of [`ScoreWeights::TERMS`].
    pub fn terms(&self) -> [Option<f64>; 6] {
        [self.capability_fit, self.affinity, self.idleness, self.cost_fit, self.health, self.starvation_penalty]
    }

    /// The weight of a term, by its name in commands.
    pub fn term_mut(&mut self, name: &str) -> Option<&mut Option<f64>> {
        match name {
            "fit" => Some(&mut self.capability_fit),
            "affinity" => Some(&mut self.affinity),
            "idle" => Some(&mut self.idleness),
            "cost" => Some(&mut self.cost_fit),
            "health" => Some(&mut self.health),
            "wait" => Some(&mut self.starvation_penalty),
            _ => None,
        }
    }
}

fn one() -> u32 {
    1
}

impl Product {
    /// A product with default settings.
    pub fn new(id: ProductId) -> Self {
        Self {
            id,
            repos: BTreeSet::new(),
            paused: false,
            pause: None,
            auto_ship: false,
            weight: 1,
            repo_seats: BTreeMap::new(),
            score_weights: ScoreWeights::default(),
        }
    }
}

/// A pause of a product by a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Who paused it.
    pub by: String,
    /// When. A run that is granted afterwards is revoked (row 17).
    pub at: Timestamp,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A stored token [I12]. The secret itself is not stored: the document's key is its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Its public name.
    pub id: TokenId,
    /// Its name. Events record it as their actor.
    pub name: String,
    /// What the token allows.
    pub grant: TokenScope,
    /// When the token was created.
    pub created_at: Timestamp,
    /// When the token expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The factory that enrolled with this join token. A used token is kept for a while to report that it was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<FactoryId>,
    /// The person that the token belongs to, for reviews; the token's name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The person's login on the forge: approvals of pull requests by it count as the person's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forge_login: Option<String>,
}

impl Token {
    /// The person that the token belongs to.
    pub fn person(&self) -> &str {
        self.owner.as_deref().unwrap_or(&self.name)
    }
}

/// A stored browser session. Its secrets are not stored: the document's key is the hash of its cookie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its public name.
    pub id: SessionId,
    /// The hash of the half that the page keeps.
    pub page_hash: String,
    /// The hash of the token's secret, which is the key of the token's document. The session ends with the token.
    pub token_hash: String,
    /// When the session began.
    pub created_at: Timestamp,
    /// When the session ends.
    pub expires_at: Timestamp,
    /// The generation of the store in which it began. A restore ends it: a browser that signed out after the backup stays
    /// signed out.
    #[serde(default)]
    pub generation: Generation,
}

/// The scope of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", tag = "role")]
pub enum TokenScope {
    /// Full access.
    Admin,
    /// Submit jobs and act on them.
    Operator {
        /// Restricted to these products; all when empty.
        #[serde(default)]
        products: BTreeSet<ProductId>,
    },
    /// Read only.
    Viewer {
        /// Restricted to these products; all when empty.
        #[serde(default)]
        products: BTreeSet<ProductId>,
    },
    /// Work as one factory.
    Factory {
        /// The factory.
        factory: FactoryId,
        /// Restricted to these products; all when empty.
        #[serde(default)]
        products: BTreeSet<ProductId>,
        /// Restricted to these capabilities; all when empty.
        #[serde(default)]
        capabilities: BTreeSet<Capability>,
        /// The pool that the factory was started for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<PoolName>,
    },
    /// Enrol one factory, once; or the factories of a pool, any number of times.
    Join {
        /// The required factory name, if it is fixed.
        #[serde(default)]
        factory: Option<FactoryId>,
        /// Products that the factory's token will cover.
        #[serde(default)]
        products: BTreeSet<ProductId>,
        /// Capabilities that the factory may report.
        #[serde(default)]
        capabilities: BTreeSet<Capability>,
        /// The pool that the factory joins. Without a factory name, the token enrols any number of its factories.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<PoolName>,
    },
}

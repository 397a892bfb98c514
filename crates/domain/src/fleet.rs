//! What the fleet is made of: factories, products, tokens. Documents that change rarely.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::engine_health::EngineHealth;
use crate::ids::{InstanceId, TokenId};
use crate::names::{Capability, EngineName, FactoryId, ProductId, RepoIdentity, RepoName};
use crate::time::Timestamp;

/// What a factory *is*. Its pulse, load and free space are kept in memory, not here [I14].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Factory {
    /// Its name.
    pub id: FactoryId,
    /// The process that registered last: the newest wins.
    pub instance: InstanceId,
    /// What it can do, as it reports it.
    pub capabilities: BTreeSet<Capability>,
    /// Repositories that are there already.
    pub repos: BTreeSet<RepoName>,
    /// Whether it can fetch a repository that is not there yet.
    #[serde(default)]
    pub clones: bool,
    /// Jobs at one time.
    pub seat_limit: u32,
    /// Jobs at one time by engine, where fewer than `seat_limit`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub engine_seats: BTreeMap<EngineName, u32>,
    /// Jobs at one time by repository on this factory, where fewer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repo_seats: BTreeMap<RepoName, u32>,
    /// Its engines, as far as it could verify them [B9].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engine_health: Vec<EngineHealth>,
    /// Relative cost of a seat: 0 is free, 100 is the dearest.
    #[serde(default)]
    pub cost: u8,
    /// Takes nothing new.
    #[serde(default)]
    pub draining: bool,
    /// The program's version.
    #[serde(default)]
    pub version: String,
    /// When it first joined.
    pub joined_at: Timestamp,
    /// Repositories that it is configured with and cannot use for now: it gets none of their jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable_repos: BTreeMap<RepoName, UnavailableRepo>,
    /// Which repository each of `repos` is. Two factories may use one name for different repositories.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repo_identities: BTreeMap<RepoName, RepoIdentity>,
    /// Credentials that an administrator resumed before their usage window was reset, with the latest reset that was known
    /// then: a window that the factory reports up to it is one that was resumed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resumed_windows: BTreeMap<String, Timestamp>,
}

/// A repository whose remote a factory cannot reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnavailableRepo {
    /// Which remote, and what it answered.
    pub message: String,
    /// Since when, by the factory's clock.
    pub since: Timestamp,
}

impl Factory {
    /// The engines it offers.
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

/// The tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Product {
    /// Its name.
    pub id: ProductId,
    /// The repositories it owns; a job of another product may not touch them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub repos: BTreeSet<RepoName>,
    /// Starts nothing new while set [I10].
    #[serde(default)]
    pub paused: bool,
    /// Ships by itself what was promoted.
    #[serde(default)]
    pub auto_ship: bool,
    /// Its share of the seats, relative to other products.
    #[serde(default = "one")]
    pub weight: u32,
    /// Jobs at one time by repository in the whole fleet: 1 serialises work on it [S6].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repo_seats: BTreeMap<RepoName, u32>,
}

fn one() -> u32 {
    1
}

impl Product {
    /// A product as it is before anybody set anything.
    pub fn new(id: ProductId) -> Self {
        Self { id, repos: BTreeSet::new(), paused: false, auto_ship: false, weight: 1, repo_seats: BTreeMap::new() }
    }
}

/// What a stored token lets its owner do [I12]. The secret itself is nowhere: the document's key is its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Its public name.
    pub id: TokenId,
    /// For people: whose it is. Recorded as the author of what it does.
    pub name: String,
    /// What it allows.
    pub grant: TokenScope,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The factory that enrolled with it: a join token is good once, and kept for a while to say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<FactoryId>,
}

/// What a token allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", tag = "role")]
pub enum TokenScope {
    /// Everything.
    Admin,
    /// Submit and steer jobs.
    Operator {
        /// Of these products; of all when empty.
        #[serde(default)]
        products: BTreeSet<ProductId>,
    },
    /// Look.
    Viewer {
        /// At these products; at all when empty.
        #[serde(default)]
        products: BTreeSet<ProductId>,
    },
    /// Work as one factory.
    Factory {
        /// The factory.
        factory: FactoryId,
        /// For these products; for all when empty.
        #[serde(default)]
        products: BTreeSet<ProductId>,
        /// Offering only these capabilities; any when empty.
        #[serde(default)]
        capabilities: BTreeSet<Capability>,
    },
    /// Enrol one factory, once.
    Join {
        /// The name that the factory must take, when it is fixed.
        #[serde(default)]
        factory: Option<FactoryId>,
        /// What its token will cover.
        #[serde(default)]
        products: BTreeSet<ProductId>,
        /// What it may offer.
        #[serde(default)]
        capabilities: BTreeSet<Capability>,
    },
}

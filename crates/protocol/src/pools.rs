//! Pools of factories that are started on demand [F9].

use std::collections::BTreeSet;

use domain::{Capability, EngineName, FactoryId, Pool, PoolName, ProductId, RepoName, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The declaration of a pool. A setting that is left out gets its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolSettings {
    /// Capabilities of its factories, without those of engines and repositories.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub capabilities: BTreeSet<Capability>,
    /// Engines of its factories. Without one a factory runs no job.
    pub engines: BTreeSet<EngineName>,
    /// Repositories of its factories.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub repos: BTreeSet<RepoName>,
    /// Whether its factories can clone any repository.
    #[serde(default)]
    pub clones: bool,
    /// Products that its factories work for; all when empty.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub products: BTreeSet<ProductId>,
    /// Seats of one factory; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seats: Option<u32>,
    /// Factories that run even when there is no work.
    #[serde(default)]
    pub warm: u32,
    /// The largest number of factories.
    pub max: u32,
    /// Relative cost of a seat, 0 to 100. The cheapest pool that fits starts a factory.
    #[serde(default)]
    pub cost: u8,
    /// How long a factory may take to join, in milliseconds; 5 minutes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_within_ms: Option<u64>,
    /// How long a factory beyond `warm` may be idle before it is retired, in milliseconds; 5 minutes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_after_ms: Option<u64>,
}

impl PoolSettings {
    /// The settings of a pool.
    pub fn of(pool: &Pool) -> Self {
        Self {
            capabilities: pool.capabilities.clone(),
            engines: pool.engines.clone(),
            repos: pool.repos.clone(),
            clones: pool.clones,
            products: pool.products.clone(),
            seats: Some(pool.seats),
            warm: pool.warm,
            max: pool.max,
            cost: pool.cost,
            start_within_ms: Some(pool.start_within_ms),
            idle_after_ms: Some(pool.idle_after_ms),
        }
    }

    /// The pool with these settings.
    pub fn named(self, name: PoolName) -> Pool {
        let default = Pool::new(name, self.max);
        Pool {
            capabilities: self.capabilities,
            engines: self.engines,
            repos: self.repos,
            clones: self.clones,
            products: self.products,
            seats: self.seats.unwrap_or(default.seats),
            warm: self.warm,
            cost: self.cost,
            start_within_ms: self.start_within_ms.unwrap_or(default.start_within_ms),
            idle_after_ms: self.idle_after_ms.unwrap_or(default.idle_after_ms),
            ..default
        }
    }
}

/// How many factories a pool should have, and has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolScale {
    /// The pool.
    pub pool: PoolName,
    /// The number of factories that should run, those that do included.
    pub wanted: u32,
    /// Its factories that run, as far as the coordinator knows.
    pub live: u32,
    /// Factories that are still missing: they are being started.
    pub starting: u32,
    /// Since when factories are missing without one having joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Whether that takes longer than the pool allows.
    #[serde(default)]
    pub overdue: bool,
    /// Jobs that wait for a factory of it.
    pub waiting: u32,
    /// Seats in use on its factories.
    pub used: u32,
    /// The largest number of factories.
    pub max: u32,
    /// How long a factory may take to join, in milliseconds.
    pub start_within_ms: u64,
    /// Its factories, by name.
    pub members: Vec<FactoryId>,
}

/// How many factories should run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleResponse {
    /// The total over these pools.
    pub wanted: u32,
    /// By pool, ordered by name.
    pub pools: Vec<PoolScale>,
}

/// A pool, and what it needs at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolView {
    /// The declaration.
    #[serde(flatten)]
    pub pool: Pool,
    /// How many factories it should have, and has.
    pub scale: PoolScale,
    /// Whether a factory of it joined and did not offer what the pool declares. It starts nothing for such jobs until it
    /// is changed.
    #[serde(default)]
    pub broken: bool,
}

/// All pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolList {
    /// Ordered by name.
    pub items: Vec<PoolView>,
}

//! Pools: what factories that are started on demand will offer [F9].

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::{Capability, EngineName, FactoryId, PoolName, ProductId, RepoName};
use crate::shape::Shape;

/// How long a factory of a pool may take to join, unless the pool says otherwise.
const START_WITHIN_MS: u64 = 5 * 60 * 1_000;

/// How long a factory of a pool stays idle before it is retired, unless the pool says otherwise.
const IDLE_AFTER_MS: u64 = 5 * 60 * 1_000;

/// A declared pool. Nothing is known of its factories before they join, so it states what they will offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Its name. The names of its factories begin with it.
    pub name: PoolName,
    /// Capabilities of its factories, without those of engines and repositories.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub capabilities: BTreeSet<Capability>,
    /// Engines of its factories.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
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
    /// Seats of one factory.
    #[serde(default = "one")]
    pub seats: u32,
    /// Factories that run even when there is no work.
    #[serde(default)]
    pub warm: u32,
    /// The largest number of factories.
    pub max: u32,
    /// Relative cost of a seat: 0 is free, 100 is the most expensive. The cheapest pool that fits starts a factory.
    #[serde(default)]
    pub cost: u8,
    /// How long a factory may take to join, in milliseconds. After that, jobs are shown as unplaceable again.
    #[serde(default = "start_within_ms")]
    pub start_within_ms: u64,
    /// How long a factory beyond `warm` may be idle before it is retired, in milliseconds.
    #[serde(default = "idle_after_ms")]
    pub idle_after_ms: u64,
}

fn one() -> u32 {
    1
}

fn start_within_ms() -> u64 {
    START_WITHIN_MS
}

fn idle_after_ms() -> u64 {
    IDLE_AFTER_MS
}

impl Pool {
    /// A pool with default settings, of factories that offer nothing yet.
    pub fn new(name: PoolName, max: u32) -> Self {
        Self {
            name,
            capabilities: BTreeSet::new(),
            engines: BTreeSet::new(),
            repos: BTreeSet::new(),
            clones: false,
            products: BTreeSet::new(),
            seats: one(),
            warm: 0,
            max,
            cost: 0,
            start_within_ms: START_WITHIN_MS,
            idle_after_ms: IDLE_AFTER_MS,
        }
    }

    /// Whether a factory of this pool will be able to run jobs of a shape, if it offers what the pool declares.
    pub fn fits(&self, shape: &Shape) -> bool {
        shape.pin.is_none()
            && self.serves(&shape.product)
            && shape.capabilities.iter().all(|capability| self.offers(capability))
            && self.has_engine_for(&shape.engines)
            && self.has_repo_for(shape)
    }

    /// Whether its factories work for a product.
    pub fn serves(&self, product: &ProductId) -> bool {
        self.products.is_empty() || self.products.contains(product)
    }

    /// Whether its factories will have the repository of a shape. Saved work needs the same repository: a factory that
    /// clones it under its name may have another one.
    pub fn has_repo_for(&self, shape: &Shape) -> bool {
        let has = |repo: &RepoName| self.repos.contains(repo) || (self.clones && shape.identity.is_none());
        shape.repo.as_ref().is_none_or(has)
    }

    /// Whether a factory has a name of this pool.
    pub fn may_name(&self, factory: &FactoryId) -> bool {
        is_member_name(&self.name, factory)
    }

    fn offers(&self, capability: &Capability) -> bool {
        let wanted = capability.clone().canonical();
        let is_engine = |engine: &EngineName| Capability::engine(engine) == wanted;
        let is_repo = |repo: &RepoName| Capability::repo(repo) == wanted;
        self.capabilities.iter().any(|offered| offered.clone().canonical() == wanted)
            || self.engines.iter().any(is_engine)
            || self.repos.iter().any(is_repo)
    }

    fn has_engine_for(&self, wanted: &[EngineName]) -> bool {
        match wanted {
            [] => !self.engines.is_empty(),
            wanted => wanted.iter().any(|engine| self.engines.contains(engine)),
        }
    }
}

/// Whether a factory may have this name in a pool: `linux-claude-7f3a` in `linux-claude`.
pub fn is_member_name(pool: &PoolName, factory: &FactoryId) -> bool {
    let rest = factory.as_str().strip_prefix(pool.as_str());
    rest.and_then(|rest| rest.strip_prefix('-')).is_some_and(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
        text.parse().unwrap()
    }

    fn shape(capabilities: &[&str], engines: &[&str], repo: Option<&str>) -> Shape {
        Shape {
            product: ProductId::default_product(),
            repo: repo.map(name),
            capabilities: capabilities.iter().copied().map(name).collect(),
            engines: engines.iter().copied().map(name).collect(),
            pin: None,
            identity: None,
        }
    }

    // [F9]
    #[test]
    fn a_pool_fits_what_its_factories_will_offer() {
        let pool = Pool {
            capabilities: [name("os:linux")].into(),
            engines: [name("claude")].into(),
            repos: [name("notes")].into(),
            ..Pool::new(name("linux"), 3)
        };
        let fits = [
            shape(&[], &[], None),
            shape(&["os:linux", "engine:claude", "repo:notes"], &["codex", "claude"], Some("notes")),
        ];
        let does_not_fit = [
            shape(&["has:docker"], &[], None),
            shape(&[], &["codex"], None),
            shape(&[], &[], Some("web")),
            Shape { pin: Some(name("mac")), ..shape(&[], &[], None) },
        ];

        for shape in &fits {
            assert!(pool.fits(shape), "{shape:?}");
        }
        for shape in &does_not_fit {
            assert!(!pool.fits(shape), "{shape:?}");
        }
        let of_shop = Pool { products: [name("shop")].into(), ..pool.clone() };
        assert!(!of_shop.fits(&fits[0]));
        let cloning = Pool { clones: true, ..pool };
        assert!(cloning.fits(&shape(&[], &[], Some("web"))));
        let saved = Shape { identity: Some(name("github.com/acme/web")), ..shape(&[], &[], Some("web")) };
        assert!(!cloning.fits(&saved));
    }

    // [F9]
    #[test]
    fn the_name_of_a_member_begins_with_its_pool() {
        let pool = name("linux");
        for (factory, is_member) in [("linux-7f3a", true), ("linux-", false), ("linux", false), ("linuxx-1", false)] {
            assert_eq!(is_member_name(&pool, &name(factory)), is_member, "{factory}");
        }
    }
}

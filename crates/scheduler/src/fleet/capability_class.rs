//! Groups factories with the same capabilities, indexed by capability.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Capability, EngineName, ProductId};

use super::intern::Interner;
use super::{FactoryState, LoadBuckets, Presence, repo_of_token};

/// Id of a class while it has members. Decisions never depend on the value.
pub(crate) type CapabilityClassId = u64;

/// Id of a capability while a class has it. Decisions never depend on the value.
pub(crate) type CapabilityId = usize;

/// The capabilities of a factory without repositories: factories that clone on demand soon differ in those.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CapabilitySet {
    tokens: BTreeSet<Capability>,
    products: BTreeSet<ProductId>,
    clones: bool,
    cost: u8,
}

/// Factories with the same capabilities.
#[derive(Debug, Clone)]
pub(crate) struct CapabilityClass {
    offer: CapabilitySet,
    /// The capabilities, sorted by id.
    tokens: Vec<CapabilityId>,
    engines: Vec<EngineName>,
    members: u32,
    pub(crate) buckets: LoadBuckets,
}

/// All classes, and an index by capability.
#[derive(Debug, Clone, Default)]
pub(crate) struct CapabilityClasses {
    ids: BTreeMap<CapabilitySet, CapabilityClassId>,
    kinds: BTreeMap<CapabilityClassId, CapabilityClass>,
    next: CapabilityClassId,
    token_ids: Interner<Capability>,
    tokens: Vec<OfferedCapability>,
    live: u32,
}

#[derive(Debug, Clone, Default)]
struct OfferedCapability {
    /// Number of live factories with it.
    live: u32,
    kinds: BTreeSet<CapabilityClassId>,
}

impl CapabilitySet {
    pub(crate) fn of(state: &FactoryState) -> Self {
        let tokens = state.factory.capabilities.iter().filter(|token| repo_of_token(token).is_none());
        Self {
            tokens: tokens.cloned().map(Capability::canonical).collect(),
            products: state.products.clone(),
            clones: state.factory.clones,
            cost: state.factory.cost,
        }
    }
}

impl CapabilityClass {
    pub(crate) fn offers(&self, tokens: &[CapabilityId]) -> bool {
        tokens.iter().all(|token| self.tokens.binary_search(token).is_ok())
    }

    pub(crate) fn has(&self, token: &Capability) -> bool {
        self.offer.tokens.contains(token)
    }

    pub(crate) fn runs(&self, engine: &EngineName) -> bool {
        self.engines.contains(engine)
    }

    /// The engines, by name.
    pub(crate) fn engines(&self) -> &[EngineName] {
        &self.engines
    }

    pub(crate) fn covers(&self, product: &ProductId) -> bool {
        self.offer.products.is_empty() || self.offer.products.contains(product)
    }

    pub(crate) fn clones(&self) -> bool {
        self.offer.clones
    }

    pub(crate) fn cost(&self) -> u8 {
        self.offer.cost
    }
}

impl CapabilityClasses {
    /// Adds a member to the class with these capabilities.
    pub(crate) fn add_member(&mut self, offer: CapabilitySet, presence: Presence) -> CapabilityClassId {
        let id = match self.ids.get(&offer) {
            Some(id) => *id,
            None => self.add(offer),
        };
        self.count(id, |members| members + 1);
        if presence == Presence::Live {
            self.count_live(id, |live| live + 1);
        }
        id
    }

    /// Removes a member. An empty class is dropped, with the capabilities that only it had.
    pub(crate) fn remove_member(&mut self, id: CapabilityClassId, presence: Presence) {
        if presence == Presence::Live {
            self.count_live(id, |live| live - 1);
        }
        if self.count(id, |members| members - 1) == 0
            && let Some(kind) = self.kinds.remove(&id)
        {
            self.forget(id, &kind);
        }
    }

    pub(crate) fn load_buckets_mut(&mut self, id: CapabilityClassId) -> &mut LoadBuckets {
        match self.kinds.get_mut(&id) {
            Some(kind) => &mut kind.buckets,
            None => unreachable!("a member's kind is kept while it has members"),
        }
    }

    pub(crate) fn get(&self, id: CapabilityClassId) -> &CapabilityClass {
        &self.kinds[&id]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (CapabilityClassId, &CapabilityClass)> {
        self.kinds.iter().map(|(id, kind)| (*id, kind))
    }

    /// The classes that may have all of these capabilities: those with the rarest one.
    pub(crate) fn offering(
        &self,
        tokens: &[CapabilityId],
    ) -> Box<dyn Iterator<Item = (CapabilityClassId, &CapabilityClass)> + '_> {
        match tokens.iter().map(|token| &self.tokens[*token].kinds).min_by_key(|kinds| kinds.len()) {
            Some(kinds) => Box::new(kinds.iter().map(|id| (*id, self.get(*id)))),
            None => Box::new(self.iter()),
        }
    }

    pub(crate) fn token(&self, token: &Capability) -> Option<CapabilityId> {
        self.token_ids.id(token)
    }

    /// Rarity of the capabilities that a class has and the job does not use: for each the share of live factories
    /// without it.
    pub(crate) fn spare(&self, kind: &CapabilityClass, asked: &[CapabilityId]) -> f64 {
        if self.live == 0 {
            return 0.0;
        }
        // Integers until the end, so that the order of insertion cannot change a digit.
        let without = |token: &CapabilityId| u64::from(self.live - self.tokens[*token].live);
        let spare: u64 = kind.tokens.iter().filter(|token| !asked.contains(token)).map(without).sum();
        spare as f64 / f64::from(self.live)
    }

    fn add(&mut self, offer: CapabilitySet) -> CapabilityClassId {
        let id = self.next;
        self.next += 1;
        let mut tokens: Vec<CapabilityId> = offer.tokens.iter().map(|token| self.learn(token)).collect();
        tokens.sort_unstable();
        for token in &tokens {
            self.tokens[*token].kinds.insert(id);
        }
        let engines = offer.tokens.iter().filter_map(engine_of_token).collect();
        self.ids.insert(offer.clone(), id);
        self.kinds.insert(id, CapabilityClass { offer, tokens, engines, members: 0, buckets: LoadBuckets::default() });
        id
    }

    fn learn(&mut self, token: &Capability) -> CapabilityId {
        let id = self.token_ids.take(token);
        if id == self.tokens.len() {
            self.tokens.push(OfferedCapability::default());
        }
        id
    }

    fn forget(&mut self, id: CapabilityClassId, kind: &CapabilityClass) {
        self.ids.remove(&kind.offer);
        for token in &kind.tokens {
            self.tokens[*token].kinds.remove(&id);
        }
        for name in &kind.offer.tokens {
            self.token_ids.give_back(name);
        }
    }

    fn count(&mut self, id: CapabilityClassId, change: impl Fn(u32) -> u32) -> u32 {
        match self.kinds.get_mut(&id) {
            Some(kind) => {
                kind.members = change(kind.members);
                kind.members
            }
            None => unreachable!("a member's kind is kept while it has members"),
        }
    }

    fn count_live(&mut self, id: CapabilityClassId, change: impl Fn(u32) -> u32) {
        self.live = change(self.live);
        for token in &self.kinds[&id].tokens {
            self.tokens[*token].live = change(self.tokens[*token].live);
        }
    }
}

fn engine_of_token(token: &Capability) -> Option<EngineName> {
    token.as_str().strip_prefix("engine:")?.parse().ok()
}

//! The factories as the scheduler sees them, and the seats that are taken.

mod capability_class;
mod intern;
mod load_bucket;
mod seat_usage;

use std::collections::{BTreeMap, BTreeSet};

use domain::{Capability, EngineName, Factory, FactoryId, JobId, ProductId, RepoIdentity, RepoName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub(crate) use capability_class::{CapabilityClass, CapabilityClassId, CapabilityClasses, CapabilityId};
pub(crate) use load_bucket::{Availability, Load, LoadBucket, LoadBuckets, LoadRank};
pub(crate) use seat_usage::{CountByName, FactoryUsage};

use crate::engine_unavailable::EngineUnavailable;
use capability_class::CapabilitySet;
use intern::Interner;
use seat_usage::SeatUsage;

/// Whether a factory is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
// The API has a `Presence` of its own, which is what people are shown.
#[schema(as = FactoryPresence)]
pub enum Presence {
    /// It gave a sign of life lately.
    Live,
    /// The coordinator has just started and not heard of it yet: it gets no work, and is not called missing [I14].
    Warming,
    /// Its stream closed: it gets no offers until it connects again. What it holds stays with it until its leases expire.
    Disconnected,
    /// It has been silent for too long.
    Stale,
    /// It was stopped and signed off.
    Down,
}

/// Why a factory is offered nothing for a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferPause {
    /// What happened, as it follows the factory's name.
    pub problem: String,
    /// Whether it declined because it is busy, which is no fault.
    pub is_busy: bool,
}

/// A factory, with what is known about it only while it is watched.
#[derive(Debug, Clone, PartialEq)]
pub struct FactoryState {
    /// What it is.
    pub factory: Factory,
    /// The products that its token covers; all when empty.
    pub products: BTreeSet<ProductId>,
    /// Whether it is there.
    pub presence: Presence,
    /// The load that it reports: 0 is idle, 1 is busy, more is overloaded. Nonsense counts as 0.
    pub load: f64,
    /// How well its runs end, from 0 to 1. Counts in steps of 0.05.
    pub health: f64,
    /// Whether it is short of disk space: it takes nothing new until that is over [B10].
    pub disk_low: bool,
    /// Why it is offered nothing for now: it left offers unanswered, or declined them.
    pub unresponsive: Option<OfferPause>,
    /// Engines that get no work for now, and why.
    pub resting: BTreeMap<EngineName, EngineUnavailable>,
}

/// What one held or dispatched job takes up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// On which factory.
    pub factory: FactoryId,
    /// For which product.
    pub product: ProductId,
    /// On which repository.
    pub repo: Option<RepoName>,
    /// By which engine.
    pub engine: Option<EngineName>,
}

/// The factories and the seats that are taken on them, indexed for decisions.
///
/// Factories that offer the same form a kind, those of a kind in the same standing a cohort, ordered by load: the cost
/// of a decision grows with the number of different kinds, not with the number of factories [S8].
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    members: BTreeMap<FactoryId, IndexedFactory>,
    index: FactoryIndex,
    repo_ids: Interner<RepoKey>,
    ledger: SeatUsage,
}

/// Where factories are found.
#[derive(Debug, Clone, Default)]
struct FactoryIndex {
    kinds: CapabilityClasses,
    saturated: SaturatedRepos,
}

/// A factory, and where the indexes have it.
#[derive(Debug, Clone)]
pub(crate) struct IndexedFactory {
    pub(crate) state: FactoryState,
    /// The repositories that it has.
    pub(crate) repos: Vec<RepoId>,
    pub(crate) kind: CapabilityClassId,
    pub(crate) standing: Availability,
    pub(crate) rank: LoadRank,
}

/// A repository by its name, whichever it is, or by its name and identity.
pub(crate) type RepoKey = (RepoName, Option<RepoIdentity>);

/// Names a repository while some factory has it. Decisions never depend on its value.
pub(crate) type RepoId = usize;

/// Factories that work on a repository as often as they may, by repository.
pub(crate) type SaturatedRepos = BTreeMap<RepoName, BTreeSet<FactoryId>>;

impl Fleet {
    /// A fleet without factories.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a factory, or what has changed about it.
    pub fn upsert(&mut self, state: FactoryState) {
        let id = state.factory.id.clone();
        self.remove(&id);
        let kind = self.index.kinds.enlist(CapabilitySet::of(&state), state.presence);
        let repos = repos_of(&state).iter().map(|repo| self.repo_ids.take(repo)).collect();
        let used = self.ledger.at(&id);
        let member = IndexedFactory {
            repos,
            kind,
            standing: Availability::of(&state, used),
            rank: LoadRank::new(Load::of(&state, used), id.clone()),
            state,
        };
        self.index.insert(&member, used);
        self.members.insert(id, member);
    }

    /// Forgets a factory. Seats that jobs still hold on it stay taken until they are vacated.
    pub fn remove(&mut self, id: &FactoryId) -> Option<FactoryState> {
        let member = self.members.remove(id)?;
        self.index.remove(&member);
        self.index.kinds.delist(member.kind, member.state.presence);
        for repo in repos_of(&member.state) {
            self.repo_ids.give_back(&repo);
        }
        Some(member.state)
    }

    /// A factory as it was last taken in.
    pub fn get(&self, id: &FactoryId) -> Option<&FactoryState> {
        self.members.get(id).map(|member| &member.state)
    }

    /// All factories, by id.
    pub fn iter(&self) -> impl Iterator<Item = &FactoryState> {
        self.members.values().map(|member| &member.state)
    }

    /// How many factories there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no factory.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// A job takes a seat: it was dispatched, or is held. A job has one seat; the new one replaces a former one.
    pub fn occupy(&mut self, job: JobId, seat: Seat) {
        self.vacate(&job);
        let factory = seat.factory.clone();
        self.ledger.occupy(job, seat);
        self.reseat(&factory);
    }

    /// A job leaves its seat.
    pub fn vacate(&mut self, job: &JobId) -> Option<Seat> {
        let seat = self.ledger.vacate(job)?;
        self.reseat(&seat.factory);
        Some(seat)
    }

    /// The seat that a job has taken.
    pub fn seat(&self, job: &JobId) -> Option<&Seat> {
        self.ledger.seat(job)
    }

    /// Seats taken on a factory.
    pub fn used(&self, factory: &FactoryId) -> u32 {
        self.ledger.at(factory).seats
    }

    /// Seats taken on a factory by an engine.
    pub fn engine_used(&self, factory: &FactoryId, engine: &EngineName) -> u32 {
        self.ledger.at(factory).engines.of(engine)
    }

    /// Seats taken on a factory for a repository.
    pub fn repo_used_at(&self, factory: &FactoryId, repo: &RepoName) -> u32 {
        self.ledger.at(factory).repos.of(repo)
    }

    /// Seats taken for a repository in the whole fleet.
    pub fn repo_used(&self, repo: &RepoName) -> u32 {
        self.ledger.repos.of(repo)
    }

    /// Seats taken for a product in the whole fleet.
    pub fn product_used(&self, product: &ProductId) -> u32 {
        self.ledger.products.of(product)
    }

    pub(crate) fn member(&self, id: &FactoryId) -> Option<&IndexedFactory> {
        self.members.get(id)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &IndexedFactory> {
        self.members.values()
    }

    pub(crate) fn kinds(&self) -> &CapabilityClasses {
        &self.index.kinds
    }

    /// A repository that some factory has; only the one of that identity, where one is named.
    pub(crate) fn repo(&self, repo: &RepoName, identity: Option<&RepoIdentity>) -> Option<RepoId> {
        self.repo_ids.id(&(repo.clone(), identity.cloned()))
    }

    pub(crate) fn used_at(&self, factory: &FactoryId) -> &FactoryUsage {
        self.ledger.at(factory)
    }

    pub(crate) fn saturated(&self, repo: &RepoName) -> Option<&BTreeSet<FactoryId>> {
        self.index.saturated.get(repo)
    }

    /// Puts a factory where its taken seats now belong.
    fn reseat(&mut self, id: &FactoryId) {
        let Some(member) = self.members.get_mut(id) else { return };
        self.index.remove(member);
        let used = self.ledger.at(id);
        member.standing = Availability::of(&member.state, used);
        member.rank.load = Load::of(&member.state, used);
        self.index.insert(member, used);
    }
}

impl FactoryIndex {
    fn insert(&mut self, member: &IndexedFactory, used: &FactoryUsage) {
        self.kinds.cohorts_mut(member.kind).insert(&member.standing, &member.rank, &member.repos);
        for repo in saturated_repos(&member.state.factory, used) {
            self.saturated.entry(repo.clone()).or_default().insert(member.rank.factory.clone());
        }
    }

    fn remove(&mut self, member: &IndexedFactory) {
        self.kinds.cohorts_mut(member.kind).remove(&member.standing, &member.rank, &member.repos);
        for repo in member.state.factory.repo_seats.keys() {
            if let Some(factories) = self.saturated.get_mut(repo) {
                factories.remove(&member.rank.factory);
                if factories.is_empty() {
                    self.saturated.remove(repo);
                }
            }
        }
    }
}

impl IndexedFactory {
    pub(crate) fn has_repo(&self, repo: &RepoName) -> bool {
        let factory = &self.state.factory;
        factory.repos.contains(repo) || factory.capabilities.contains(&Capability::repo(repo))
    }
}

/// The repositories on which a factory already works as often as it may.
pub(crate) fn saturated_repos<'a>(factory: &'a Factory, used: &'a FactoryUsage) -> impl Iterator<Item = &'a RepoName> {
    factory.repo_seats.iter().filter(|(repo, limit)| used.repos.of(repo) >= **limit).map(|(repo, _)| repo)
}

/// A repository is there if the factory lists it or advertises its token: by its name, and by its name with the identity
/// that the factory reports.
fn repos_of(state: &FactoryState) -> BTreeSet<RepoKey> {
    let factory = &state.factory;
    let advertised = factory.capabilities.iter().filter_map(repo_of_token);
    let names: BTreeSet<RepoName> = factory.repos.iter().cloned().chain(advertised).collect();
    let identified = |repo: &RepoName| Some((repo.clone(), Some(factory.repo_identities.get(repo)?.clone())));
    let identified: Vec<RepoKey> = names.iter().filter_map(identified).collect();
    names.into_iter().map(|repo| (repo, None)).chain(identified).collect()
}

/// The repository that a token of the family `repo` names.
pub(crate) fn repo_of_token(token: &Capability) -> Option<RepoName> {
    token.as_str().strip_prefix("repo:")?.parse().ok()
}

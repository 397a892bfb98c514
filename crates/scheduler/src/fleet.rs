//! The scheduler's index of factories and used seats.

mod capability_class;
mod intern;
mod load_bucket;
mod seat_usage;

use std::collections::{BTreeMap, BTreeSet};

use domain::{Capability, EngineName, Factory, FactoryId, JobId, PoolName, ProductId, RepoIdentity, RepoName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub(crate) use capability_class::{CapabilityClass, CapabilityClassId, CapabilityClasses, CapabilityId};
pub(crate) use load_bucket::{Availability, Load, LoadBucket, LoadBuckets, LoadRank};
pub(crate) use seat_usage::{CountByName, FactoryUsage};

use crate::engine_unavailable::EngineUnavailable;
use capability_class::CapabilitySet;
use intern::Interner;
use seat_usage::SeatUsage;

/// Whether a factory is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
// The API shows a `Presence` of its own.
#[schema(as = FactoryPresence)]
pub enum Presence {
    /// The last heartbeat is recent.
    Live,
    /// No heartbeat since the coordinator started. The factory gets no work and is not reported missing [I14].
    Warming,
    /// The stream closed. The factory gets no offers until it reconnects, and keeps its leases until they expire.
    Disconnected,
    /// The last heartbeat is too old.
    Stale,
    /// The factory shut down.
    Down,
}

/// Why a factory temporarily gets no offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferPause {
    /// What happened, phrased to follow the factory's name.
    pub problem: String,
    /// Whether it declined because it is busy, which is not a fault.
    pub is_busy: bool,
}

/// A factory with its in-memory state.
#[derive(Debug, Clone, PartialEq)]
pub struct FactoryState {
    /// The registration.
    pub factory: Factory,
    /// The products that its token covers; all when empty.
    pub products: BTreeSet<ProductId>,
    /// Whether the factory is connected.
    pub presence: Presence,
    /// Reported load: 0 is idle, 1 is busy, more is overloaded. Invalid values count as 0.
    pub load: f64,
    /// Success rate of its runs, from 0 to 1. Rounded to steps of 0.05.
    pub health: f64,
    /// Whether disk space is low. The factory gets no new jobs meanwhile [B10].
    pub disk_low: bool,
    /// Set after unanswered or declined offers: the factory temporarily gets none.
    pub unresponsive: Option<OfferPause>,
    /// Unavailable engines, and why.
    pub resting: BTreeMap<EngineName, EngineUnavailable>,
}

/// A seat used by a dispatched or held job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// The factory.
    pub factory: FactoryId,
    /// The product.
    pub product: ProductId,
    /// The repository.
    pub repo: Option<RepoName>,
    /// The engine.
    pub engine: Option<EngineName>,
}

/// Factories and used seats, indexed for decisions.
///
/// Factories with the same capabilities form a class; members with the same availability form a load bucket, ordered by
/// load. The cost of a decision grows with the number of classes, not of factories [S8].
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    members: BTreeMap<FactoryId, IndexedFactory>,
    index: FactoryIndex,
    repo_ids: Interner<RepoKey>,
    ledger: SeatUsage,
    pools: BTreeMap<PoolName, BTreeSet<FactoryId>>,
}

/// Lookup tables of factories.
#[derive(Debug, Clone, Default)]
struct FactoryIndex {
    kinds: CapabilityClasses,
    saturated: SaturatedRepos,
}

/// A factory with its index positions.
#[derive(Debug, Clone)]
pub(crate) struct IndexedFactory {
    pub(crate) state: FactoryState,
    /// The factory's repositories.
    pub(crate) repos: Vec<RepoId>,
    pub(crate) kind: CapabilityClassId,
    pub(crate) load_state: Availability,
    pub(crate) rank: LoadRank,
}

/// A repository by name alone, or by name and identity.
pub(crate) type RepoKey = (RepoName, Option<RepoIdentity>);

/// Interned id of a repository while a factory has it. Decisions never depend on the value.
pub(crate) type RepoId = usize;

/// Factories at their limit for a repository, by repository.
pub(crate) type SaturatedRepos = BTreeMap<RepoName, BTreeSet<FactoryId>>;

impl Fleet {
    /// A fleet without factories.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or updates a factory.
    pub fn upsert(&mut self, state: FactoryState) {
        let id = state.factory.id.clone();
        self.remove(&id);
        let kind = self.index.kinds.add_member(CapabilitySet::of(&state), state.presence);
        let repos = repos_of(&state).iter().map(|repo| self.repo_ids.take(repo)).collect();
        let used = self.ledger.at(&id);
        let member = IndexedFactory {
            repos,
            kind,
            load_state: Availability::of(&state, used),
            rank: LoadRank::new(Load::of(&state, used), id.clone()),
            state,
        };
        self.index.insert(&member, used);
        if let Some(pool) = &member.state.factory.pool {
            self.pools.entry(pool.clone()).or_default().insert(id.clone());
        }
        self.members.insert(id, member);
    }

    /// Removes a factory. Its seats stay used until their jobs vacate them.
    pub fn remove(&mut self, id: &FactoryId) -> Option<FactoryState> {
        let member = self.members.remove(id)?;
        self.index.remove(&member);
        self.index.kinds.remove_member(member.kind, member.state.presence);
        for repo in repos_of(&member.state) {
            self.repo_ids.give_back(&repo);
        }
        if let Some(pool) = &member.state.factory.pool
            && let Some(members) = self.pools.get_mut(pool)
        {
            members.remove(id);
            if members.is_empty() {
                self.pools.remove(pool);
            }
        }
        Some(member.state)
    }

    /// The pools that have factories, by name.
    pub fn pools(&self) -> impl Iterator<Item = &PoolName> {
        self.pools.keys()
    }

    /// The factories of a pool, by id.
    pub fn of_pool(&self, pool: &PoolName) -> impl Iterator<Item = &FactoryState> {
        let ids = self.pools.get(pool).into_iter().flatten();
        ids.filter_map(|id| self.get(id))
    }

    /// The last known state of a factory.
    pub fn get(&self, id: &FactoryId) -> Option<&FactoryState> {
        self.members.get(id).map(|member| &member.state)
    }

    /// All factories, by id.
    pub fn iter(&self) -> impl Iterator<Item = &FactoryState> {
        self.members.values().map(|member| &member.state)
    }

    /// Number of factories.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no factory.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Gives a job a seat, on dispatch or grant. It replaces the job's earlier seat.
    pub fn occupy(&mut self, job: JobId, seat: Seat) {
        self.vacate(&job);
        let factory = seat.factory.clone();
        self.ledger.occupy(job, seat);
        self.reseat(&factory);
    }

    /// Frees the seat of a job.
    pub fn vacate(&mut self, job: &JobId) -> Option<Seat> {
        let seat = self.ledger.vacate(job)?;
        self.reseat(&seat.factory);
        Some(seat)
    }

    /// Keeps a seat for a waiting job: it counts as used, and only this job gets it. Replaces the job's earlier one.
    pub fn reserve(&mut self, job: JobId, seat: Seat) {
        self.unreserve(&job);
        let factory = seat.factory.clone();
        self.ledger.reserve(job, seat);
        self.reseat(&factory);
    }

    /// Releases the seat kept for a job.
    pub fn unreserve(&mut self, job: &JobId) -> Option<Seat> {
        let seat = self.ledger.unreserve(job)?;
        self.reseat(&seat.factory);
        Some(seat)
    }

    /// The seats kept for waiting jobs, by job.
    pub fn reservations(&self) -> &BTreeMap<JobId, Seat> {
        self.ledger.reserved()
    }

    /// The seat of a job.
    pub fn seat(&self, job: &JobId) -> Option<&Seat> {
        self.ledger.seat(job)
    }

    /// Seats used on a factory.
    pub fn used(&self, factory: &FactoryId) -> u32 {
        self.ledger.at(factory).seats
    }

    /// Seats used on a factory by an engine.
    pub fn engine_used(&self, factory: &FactoryId, engine: &EngineName) -> u32 {
        self.ledger.at(factory).engines.of(engine)
    }

    /// Seats used on a factory for a repository.
    pub fn repo_used_at(&self, factory: &FactoryId, repo: &RepoName) -> u32 {
        self.ledger.at(factory).repos.of(repo)
    }

    /// Seats used for a repository in the fleet.
    pub fn repo_used(&self, repo: &RepoName) -> u32 {
        self.ledger.repos.of(repo)
    }

    /// Seats used for a product in the fleet.
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

    /// The id of a repository that a factory has, restricted to `identity` if given.
    pub(crate) fn repo(&self, repo: &RepoName, identity: Option<&RepoIdentity>) -> Option<RepoId> {
        self.repo_ids.id(&(repo.clone(), identity.cloned()))
    }

    pub(crate) fn used_at(&self, factory: &FactoryId) -> &FactoryUsage {
        self.ledger.at(factory)
    }

    pub(crate) fn saturated(&self, repo: &RepoName) -> Option<&BTreeSet<FactoryId>> {
        self.index.saturated.get(repo)
    }

    /// Moves a factory to the bucket of its current seat usage.
    fn reseat(&mut self, id: &FactoryId) {
        let Some(member) = self.members.get_mut(id) else { return };
        self.index.remove(member);
        let used = self.ledger.at(id);
        member.load_state = Availability::of(&member.state, used);
        member.rank.load = Load::of(&member.state, used);
        self.index.insert(member, used);
    }
}

impl FactoryIndex {
    fn insert(&mut self, member: &IndexedFactory, used: &FactoryUsage) {
        self.kinds.load_buckets_mut(member.kind).insert(&member.load_state, &member.rank, &member.repos);
        for repo in saturated_repos(&member.state.factory, used) {
            self.saturated.entry(repo.clone()).or_default().insert(member.rank.factory.clone());
        }
    }

    fn remove(&mut self, member: &IndexedFactory) {
        self.kinds.load_buckets_mut(member.kind).remove(&member.load_state, &member.rank, &member.repos);
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

/// The repositories for which a factory is at its limit.
pub(crate) fn saturated_repos<'a>(factory: &'a Factory, used: &'a FactoryUsage) -> impl Iterator<Item = &'a RepoName> {
    factory.repo_seats.iter().filter(|(repo, limit)| used.repos.of(repo) >= **limit).map(|(repo, _)| repo)
}

/// The repositories of a factory, listed or advertised as capability: by name, and by name with the reported identity.
fn repos_of(state: &FactoryState) -> BTreeSet<RepoKey> {
    let factory = &state.factory;
    let advertised = factory.capabilities.iter().filter_map(repo_of_token);
    let names: BTreeSet<RepoName> = factory.repos.iter().cloned().chain(advertised).collect();
    let identified = |repo: &RepoName| Some((repo.clone(), Some(factory.repo_identities.get(repo)?.clone())));
    let identified: Vec<RepoKey> = names.iter().filter_map(identified).collect();
    names.into_iter().map(|repo| (repo, None)).chain(identified).collect()
}

/// The repository that a `repo:` capability names.
pub(crate) fn repo_of_token(token: &Capability) -> Option<RepoName> {
    token.as_str().strip_prefix("repo:")?.parse().ok()
}

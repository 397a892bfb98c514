//! The fleet with the placements of a plan in progress.

use std::collections::{BTreeMap, BTreeSet};

use domain::{EngineName, FactoryId, RepoName, Shape};
use foldhash::{HashMap, HashMapExt as _};

use crate::constraints::Constraints;
use crate::filter::{Candidate, FilterCondition, RepoFit};
use crate::fleet::{
    Availability, CapabilityClass, CapabilityClassId, CountByName, FactoryUsage, IndexedFactory, Load, LoadBucket,
    LoadBuckets, LoadRank, RepoId, SaturatedRepos, Seat, saturated_repos,
};
use crate::plan::Placement;
use crate::score::Score;
use crate::view::{Demand, FleetView};

/// The fleet with the seats that a plan has assigned.
///
/// Factories with new seats are indexed here and skipped in the fleet's own index.
pub(crate) struct FleetOverlay<'a> {
    pub(crate) view: FleetView<'a>,
    /// Never iterated: its order would differ from one process to the next.
    changed: HashMap<FactoryId, ChangedFactory>,
    buckets: BTreeMap<CapabilityClassId, LoadBuckets>,
    saturated: SaturatedRepos,
    repos: CountByName<RepoName>,
    /// Seats per repository that the plan released.
    released: CountByName<RepoName>,
}

/// A factory with newly assigned seats.
struct ChangedFactory {
    used: FactoryUsage,
    load_state: Availability,
    rank: LoadRank,
}

/// A group of similar factories from one of the two indexes.
#[derive(Clone, Copy)]
pub(crate) struct FactoryGroup<'d> {
    pub(crate) kind: &'d CapabilityClass,
    pub(crate) load_state: &'d Availability,
    pub(crate) bucket: &'d LoadBucket,
    index: Index,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Index {
    Fleet,
    Draft,
}

impl<'a> FleetOverlay<'a> {
    pub(crate) fn of(view: &FleetView<'a>) -> Self {
        Self {
            view: *view,
            changed: HashMap::new(),
            buckets: BTreeMap::new(),
            saturated: SaturatedRepos::new(),
            repos: CountByName::default(),
            released: CountByName::default(),
        }
    }

    pub(crate) fn constraints<'n>(&self, demand: Demand<'n>) -> Constraints<'n> {
        Constraints::of(demand, &self.view, |repo| self.repo_used(repo))
    }

    /// [`FleetOverlay::constraints`] as if the seat were free.
    pub(crate) fn constraints_without<'n>(&self, demand: Demand<'n>, seat: &Seat) -> Constraints<'n> {
        let is_its = |repo: &RepoName| seat.repo.as_ref() == Some(repo);
        Constraints::of(demand, &self.view, |repo| self.repo_used(repo).saturating_sub(u32::from(is_its(repo))))
    }

    fn repo_used(&self, repo: &RepoName) -> u32 {
        (self.view.fleet.repo_used(repo) + self.repos.of(repo)).saturating_sub(self.released.of(repo))
    }

    /// Assigns a seat to a job of this shape.
    pub(crate) fn occupy(&mut self, placement: &Placement, shape: &Shape) {
        self.replace(None, &seat_of(placement, shape));
    }

    /// Assigns a seat, and releases another one of the same factory.
    pub(crate) fn replace(&mut self, released: Option<&Seat>, seat: &Seat) {
        let factory = &seat.factory;
        let Some(member) = self.view.fleet.member(factory) else { return };
        let buckets = self.buckets.entry(member.kind).or_default();
        let mut used = match self.changed.remove(factory) {
            Some(before) => {
                buckets.remove(&before.load_state, &before.rank, &member.repos);
                before.used
            }
            None => self.view.fleet.used_at(factory).clone(),
        };
        if let Some(released) = released {
            used.subtract(released);
            if let Some(repo) = &released.repo {
                self.released.add(repo);
            }
            // The repository may have a free seat again.
            self.saturated.retain(|_, factories| {
                factories.remove(factory);
                !factories.is_empty()
            });
        }
        used.add(seat);
        let load_state = Availability::of(&member.state, &used);
        let rank = LoadRank::new(Load::of(&member.state, &used), factory.clone());
        buckets.insert(&load_state, &rank, &member.repos);
        for repo in saturated_repos(&member.state.factory, &used) {
            self.saturated.entry(repo.clone()).or_default().insert(factory.clone());
        }
        if let Some(repo) = &seat.repo {
            self.repos.add(repo);
        }
        self.changed.insert(factory.clone(), ChangedFactory { used, load_state, rank });
    }

    /// A factory for a job as if a seat of the factory were free, if the factory is eligible then.
    pub(crate) fn consider_without<'d>(
        &'d self,
        seat: &Seat,
        constraints: &Constraints<'d>,
    ) -> Option<(Option<EngineName>, Score)> {
        let member = self.view.fleet.member(&seat.factory)?;
        let mut used = match self.changed.get(&seat.factory) {
            Some(changed) => changed.used.clone(),
            None => self.view.fleet.used_at(&seat.factory).clone(),
        };
        used.subtract(seat);
        let load_state = Availability::of(&member.state, &used);
        let candidate = self.candidate(member, constraints);
        let is_saturated = |repo: &RepoName| saturated_repos(&member.state.factory, &used).any(|full| full == repo);
        let free = constraints.shape.repo.as_ref().is_none_or(|repo| !is_saturated(repo));
        let repo = RepoFit { free, ..candidate.repo };
        let candidate = Candidate { load_state: &load_state, repo, ..candidate };
        match FilterCondition::stopping(&candidate, constraints) {
            Some(_) => None,
            None => Some(self.assess_at(member, &load_state, Load::of(&member.state, &used), constraints)),
        }
    }

    /// One factory as input to the filter.
    pub(crate) fn candidate<'d>(&'d self, member: &'d IndexedFactory, constraints: &Constraints) -> Candidate<'d> {
        let factory = &member.rank.factory;
        let kind = self.view.fleet.kinds().get(member.kind);
        Candidate {
            kind,
            load_state: self.changed.get(factory).map_or(&member.load_state, |changed| &changed.load_state),
            repo: self.repo_fit(kind, factory, constraints, |repo| member.repos.contains(&repo)),
            pinned_elsewhere: constraints.shape.pin.as_ref().is_some_and(|pin| pin != factory),
        }
    }

    /// The rank of a factory within its bucket.
    pub(crate) fn rank<'d>(&'d self, member: &'d IndexedFactory) -> &'d LoadRank {
        self.changed.get(&member.rank.factory).map_or(&member.rank, |changed| &changed.rank)
    }

    /// All factories of a class, by group.
    pub(crate) fn alike<'d>(
        &'d self,
        id: CapabilityClassId,
        kind: &'d CapabilityClass,
    ) -> impl Iterator<Item = FactoryGroup<'d>> {
        let stored = kind.buckets.iter().map(|group| (group, Index::Fleet));
        let changed = self.buckets.get(&id).into_iter().flat_map(LoadBuckets::iter).map(|group| (group, Index::Draft));
        stored.chain(changed).map(|((load_state, bucket), index)| FactoryGroup { kind, load_state, bucket, index })
    }

    /// The groups of a class whose availability allows work.
    pub(crate) fn ready<'d>(
        &'d self,
        id: CapabilityClassId,
        kind: &'d CapabilityClass,
    ) -> impl Iterator<Item = FactoryGroup<'d>> {
        let stored = kind.buckets.ready().map(|group| (group, Index::Fleet));
        let changed = self.buckets.get(&id).into_iter().flat_map(LoadBuckets::ready).map(|group| (group, Index::Draft));
        stored.chain(changed).map(|((load_state, bucket), index)| FactoryGroup { kind, load_state, bucket, index })
    }

    /// Whether a factory moved from the fleet's index to the overlay.
    pub(crate) fn moved(&self, alike: &FactoryGroup, rank: &LoadRank) -> bool {
        alike.index == Index::Fleet && !self.changed.is_empty() && self.changed.contains_key(&rank.factory)
    }

    /// The repository conditions that a factory passes. `has` is true for its repositories.
    pub(crate) fn repo_fit(
        &self,
        kind: &CapabilityClass,
        factory: &FactoryId,
        constraints: &Constraints,
        has: impl Fn(RepoId) -> bool,
    ) -> RepoFit {
        let repo = constraints.shape.repo.as_ref();
        RepoFit {
            tokens: constraints.held.iter().copied().all(&has),
            there: constraints.may_be_cloned(kind) || repo.is_none() || constraints.repo.is_some_and(&has),
            free: repo.is_none_or(|repo| !self.is_saturated(factory, repo)),
        }
    }

    /// Whether a factory is at its limit for a repository.
    fn is_saturated(&self, factory: &FactoryId, repo: &RepoName) -> bool {
        let among = |factories: Option<&BTreeSet<FactoryId>>| factories.is_some_and(|all| all.contains(factory));
        among(self.view.fleet.saturated(repo)) || among(self.saturated.get(repo))
    }
}

/// The seat that a placement uses.
pub(crate) fn seat_of(placement: &Placement, shape: &Shape) -> Seat {
    Seat {
        factory: placement.factory.clone(),
        product: shape.product.clone(),
        repo: shape.repo.clone(),
        engine: placement.engine.clone(),
    }
}

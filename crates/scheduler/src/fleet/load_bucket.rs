//! Groups factories of one class by availability, ordered by load.

use std::collections::{BTreeMap, BTreeSet};

use domain::{EngineName, FactoryId};

use super::{FactoryState, FactoryUsage, Presence, RepoId};
use crate::engine_unavailable::EngineUnavailable;

/// Health is rounded to this many steps, so that noise does not split similar factories.
const HEALTH_STEPS: f64 = 20.0;

/// The volatile state that decides whether a factory can take work, except its repositories.
///
/// Ordered: available factories first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Availability {
    pub(crate) presence: Presence,
    pub(crate) draining: bool,
    pub(crate) disk_low: bool,
    pub(crate) unresponsive: bool,
    pub(crate) full: bool,
    health: u8,
    /// Engines without a free seat, sorted.
    pub(crate) busy_engines: Vec<EngineName>,
    /// Unavailable engines. Engines of one credential become unavailable together, so this rarely splits a bucket.
    pub(crate) resting: BTreeMap<EngineName, EngineUnavailable>,
}

/// Load of a factory: the reported one or its share of used seats, whichever is higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load(u64);

/// Order within a bucket: the least loaded first, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LoadRank {
    pub(crate) load: Load,
    /// The first bytes of the id as numbers with the same order. They decide most comparisons without a memory access
    /// to the id.
    prefix: [u64; 2],
    pub(crate) factory: FactoryId,
}

/// Factories of one class with the same availability.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoadBucket {
    pub(crate) by_load: BTreeSet<LoadRank>,
    /// Members by repository.
    pub(crate) holders: BTreeMap<RepoId, BTreeSet<LoadRank>>,
}

/// The factories of one class, by availability.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoadBuckets(BTreeMap<Availability, LoadBucket>);

impl Availability {
    pub(crate) fn of(state: &FactoryState, used: &FactoryUsage) -> Self {
        let limits = state.factory.engine_seats.iter();
        let busy = limits.filter(|(engine, limit)| used.engines.of(engine) >= **limit);
        Self {
            presence: state.presence,
            draining: state.factory.draining,
            disk_low: state.disk_low,
            unresponsive: state.unresponsive.is_some(),
            full: used.seats >= state.factory.seat_limit,
            health: (state.health.clamp(0.0, 1.0) * HEALTH_STEPS).round() as u8,
            busy_engines: busy.map(|(engine, _)| engine.clone()).collect(),
            resting: state.resting.clone(),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.presence == Presence::Live && !self.draining && !self.disk_low && !self.unresponsive && !self.full
    }

    pub(crate) fn health(&self) -> f64 {
        f64::from(self.health) / HEALTH_STEPS
    }
}

impl Load {
    pub(crate) fn of(state: &FactoryState, used: &FactoryUsage) -> Self {
        let reported = if state.load.is_finite() { state.load.max(0.0) } else { 0.0 };
        let taken = match state.factory.seat_limit {
            0 => 0.0,
            limit => f64::from(used.seats) / f64::from(limit),
        };
        // The bits of non-negative floats sort like the floats; adding zero turns −0 into 0.
        Self((reported.max(taken) + 0.0).to_bits())
    }

    pub(crate) fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl LoadRank {
    pub(crate) fn new(load: Load, factory: FactoryId) -> Self {
        let bytes = factory.as_str().as_bytes();
        let word = |start: usize| {
            let eight = (start..start + 8).map(|at| bytes.get(at).copied().unwrap_or(0));
            eight.fold(0, |word, byte| word << 8 | u64::from(byte))
        };
        Self { load, prefix: [word(0), word(8)], factory }
    }
}

impl LoadBucket {
    pub(crate) fn holds(&self, rank: &LoadRank, repo: RepoId) -> bool {
        self.holders.get(&repo).is_some_and(|holders| holders.contains(rank))
    }
}

impl LoadBuckets {
    pub(crate) fn insert(&mut self, load_state: &Availability, rank: &LoadRank, repos: &[RepoId]) {
        if !self.0.contains_key(load_state) {
            self.0.insert(load_state.clone(), LoadBucket::default());
        }
        let Some(bucket) = self.0.get_mut(load_state) else { return };
        bucket.by_load.insert(rank.clone());
        for repo in repos {
            bucket.holders.entry(*repo).or_default().insert(rank.clone());
        }
    }

    pub(crate) fn remove(&mut self, load_state: &Availability, rank: &LoadRank, repos: &[RepoId]) {
        let Some(bucket) = self.0.get_mut(load_state) else { return };
        bucket.by_load.remove(rank);
        for repo in repos {
            if let Some(holders) = bucket.holders.get_mut(repo) {
                holders.remove(rank);
                if holders.is_empty() {
                    bucket.holders.remove(repo);
                }
            }
        }
        if bucket.by_load.is_empty() {
            self.0.remove(load_state);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Availability, &LoadBucket)> {
        self.0.iter()
    }

    /// The buckets whose availability allows work.
    pub(crate) fn ready(&self) -> impl Iterator<Item = (&Availability, &LoadBucket)> {
        self.0.iter().take_while(|(load_state, _)| load_state.is_ready())
    }
}

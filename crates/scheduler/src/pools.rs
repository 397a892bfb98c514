//! Pools of factories that are started on demand, as the scheduler sees them [F9].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::{Pool, PoolName, Shape, Timestamp};

use crate::fleet::{FactoryState, Presence};
use crate::unplaced::Unplaced;
use crate::view::FleetView;

/// A pool, and what is known about its starts.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolState {
    /// Its declaration.
    pub pool: Pool,
    /// Since when factories are missing without one having joined.
    pub starting_since: Option<Timestamp>,
    /// Shapes that a factory of the pool turned out not to fit. The pool starts nothing for them until it is changed.
    pub misfits: BTreeSet<Arc<Shape>>,
}

/// All pools, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pools(BTreeMap<PoolName, PoolState>);

impl PoolState {
    /// A pool that has started nothing yet.
    pub fn new(pool: Pool) -> Self {
        Self { pool, starting_since: None, misfits: BTreeSet::new() }
    }

    /// Whether factories of the pool have been missing for longer than they may take.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        let limit = Duration::from_millis(self.pool.start_within_ms);
        self.starting_since.is_some_and(|since| now.since(since) >= limit)
    }

    /// Whether another factory of the pool would run jobs of a shape.
    pub(crate) fn helps(&self, shape: &Shape) -> bool {
        self.pool.fits(shape) && !self.misfits.iter().any(|misfit| **misfit == *shape)
    }
}

impl Pools {
    /// Adds or replaces a pool.
    pub fn insert(&mut self, state: PoolState) {
        self.0.insert(state.pool.name.clone(), state);
    }

    /// Removes a pool.
    pub fn remove(&mut self, name: &PoolName) -> Option<PoolState> {
        self.0.remove(name)
    }

    /// A pool.
    pub fn get(&self, name: &PoolName) -> Option<&PoolState> {
        self.0.get(name)
    }

    /// A pool, to change what is known about it.
    pub fn get_mut(&mut self, name: &PoolName) -> Option<&mut PoolState> {
        self.0.get_mut(name)
    }

    /// All pools, by name.
    pub fn iter(&self) -> impl Iterator<Item = &PoolState> {
        self.0.values()
    }

    /// Whether there is no pool.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pools whose factories would run jobs of a shape, the cheapest first.
    pub(crate) fn helping(&self, shape: &Shape) -> Vec<&PoolState> {
        let mut helping: Vec<_> = self.iter().filter(|state| state.helps(shape)).collect();
        helping.sort_by_key(|state| (state.pool.cost, &state.pool.name));
        helping
    }

    /// The pools whose factories would take promotions and merges of a shape, the cheapest first.
    pub(crate) fn helping_errand(&self, shape: &Shape) -> Vec<&PoolState> {
        let takes = |state: &&PoolState| state.pool.serves(&shape.product) && state.pool.has_repo_for(shape);
        let mut helping: Vec<_> = self.iter().filter(takes).collect();
        helping.sort_by_key(|state| (state.pool.cost, &state.pool.name));
        helping
    }

    /// The pool that starts a factory for a promotion or a merge that no factory can take.
    pub fn starting_for_errand(&self, view: &FleetView, shape: &Shape) -> Option<&PoolName> {
        let pool = self.helping_errand(shape).into_iter().next()?;
        (!pool.is_overdue(view.now)).then_some(&pool.pool.name)
    }

    /// The pool that starts a factory for a shape that waits for this reason, and since when.
    pub(crate) fn starting(&self, view: &FleetView, shape: &Shape, why: &Unplaced) -> Option<(PoolName, Timestamp)> {
        if self.is_empty() || !why.needs_another_factory() {
            return None;
        }
        let has_room = |state: &&PoolState| {
            let present = view.fleet.of_pool(&state.pool.name).filter(|member| is_present(member)).count();
            present < state.pool.max as usize
        };
        let pool = self.helping(shape).into_iter().find(has_room)?;
        if pool.is_overdue(view.now) {
            return None;
        }
        Some((pool.pool.name.clone(), pool.starting_since.unwrap_or(view.now)))
    }
}

/// Whether a factory's process probably runs: it is connected, or had no time to reconnect.
pub(crate) fn is_present(member: &FactoryState) -> bool {
    match member.presence {
        Presence::Live | Presence::Warming | Presence::Disconnected => true,
        Presence::Stale | Presence::Down => false,
    }
}

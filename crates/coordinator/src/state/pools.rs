//! Pools in memory: what is declared, and what is known about their starts and their members [F9].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{FactoryId, Pool, PoolName, Revision, Shape, Timestamp, Versioned};
use scheduler::{PoolDemand, PoolState, Pools, Presence};

use super::FleetState;

/// Shapes remembered per pool that its members do not fit.
const MISFITS_MAX: usize = 256;

/// Pools, and the members that may be retired.
#[derive(Debug, Default)]
pub(crate) struct PoolBook {
    declared: Pools,
    revisions: BTreeMap<PoolName, Revision>,
    /// Since when each idle member is idle.
    idle_since: BTreeMap<FactoryId, Timestamp>,
    /// Members that were told to leave. In memory only: a new coordinator decides anew.
    retiring: BTreeSet<FactoryId>,
    /// The demand that was noted last.
    noted: Vec<PoolDemand>,
    /// When the pools have to be looked after again.
    wake: Option<Timestamp>,
}

impl PoolBook {
    pub(crate) fn declared(&self) -> &Pools {
        &self.declared
    }
}

impl FleetState {
    /// The pools.
    pub(crate) fn pools(&self) -> &Pools {
        &self.pools.declared
    }

    /// A pool with the revision that it is stored at.
    pub(crate) fn versioned_pool(&self, name: &PoolName) -> Option<Versioned<Pool>> {
        let (state, revision) = (self.pools.declared.get(name)?, self.pools.revisions.get(name)?);
        Some(Versioned { value: state.pool.clone(), revision: *revision })
    }

    /// Replaces a pool by what is stored. What was known about its starts is forgotten: it tries again.
    pub(crate) fn put_pool(&mut self, pool: Versioned<Pool>) {
        self.pools.revisions.insert(pool.value.name.clone(), pool.revision);
        self.pools.declared.insert(PoolState::new(pool.value));
        self.touch_waiting();
    }

    /// Removes a pool.
    pub(crate) fn remove_pool(&mut self, name: &PoolName) {
        self.pools.revisions.remove(name);
        self.pools.declared.remove(name);
        self.touch_waiting();
    }

    /// Whether there is a pool, or a factory of a former one.
    pub(crate) fn has_pools(&self) -> bool {
        !self.pools.declared.is_empty() || self.fleet.pools().next().is_some()
    }

    /// Records that a factory of a pool has joined: the time for the next one begins.
    pub(crate) fn note_pool_joined(&mut self, name: &PoolName) {
        if let Some(pool) = self.pools.declared.get_mut(name) {
            pool.starting_since = None;
        }
    }

    /// Records what the pools need. Returns whether it differs from before.
    pub(crate) fn note_demand(&mut self, demands: Vec<PoolDemand>, now: Timestamp) -> bool {
        for demand in &demands {
            let Some(pool) = self.pools.declared.get_mut(&demand.pool) else { continue };
            let room = MISFITS_MAX.saturating_sub(pool.misfits.len());
            pool.misfits.extend(demand.misfits.iter().take(room).cloned());
            match demand.wanted > demand.present {
                true => drop(pool.starting_since.get_or_insert(now)),
                false => pool.starting_since = None,
            }
        }
        let is_changed = self.pools.noted != demands;
        self.pools.noted = demands;
        is_changed
    }

    /// Whether a member was told to leave.
    pub(crate) fn is_retiring(&self, id: &FactoryId) -> bool {
        self.pools.retiring.contains(id)
    }

    /// Retires idle members beyond those that are wanted, the longest idle first; and those that were drained, as soon as
    /// they hold nothing. Returns them.
    pub(crate) fn retire_members(&mut self, now: Timestamp) -> Vec<FactoryId> {
        self.note_idle_members(now);
        let (mut leaving, mut wake) = (Vec::new(), None);
        for name in self.pool_names() {
            let idle_after = self.pools.declared.get(&name).map_or(Duration::ZERO, idle_after);
            let mut excess = self.members_beyond_demand(&name);
            let mut idle: Vec<_> = self.idle_members(&name);
            idle.sort();
            for (since, id) in idle {
                let is_drained = self.factory(&id).is_some_and(|factory| factory.value.draining);
                let due = since.after(idle_after);
                match (is_drained, excess, due <= now) {
                    (true, _, _) => leaving.push(id),
                    (false, 0, _) => {}
                    (false, _, true) => {
                        excess -= 1;
                        leaving.push(id);
                    }
                    (false, _, false) => wake = Some(wake.map_or(due, |wake: Timestamp| wake.min(due))),
                }
            }
            let start_by =
                self.pools.declared.get(&name).and_then(|pool| Some(pool.starting_since?.after(start_within(pool))));
            if let Some(start_by) = start_by.filter(|by| *by > now) {
                wake = Some(wake.map_or(start_by, |wake| wake.min(start_by)));
            }
        }
        self.pools.wake = wake;
        self.pools.retiring.extend(leaving.iter().cloned());
        leaving
    }

    /// When the pools have to be looked after again: a member may be retired, or a start is overdue.
    pub(crate) fn next_pool_wake(&self) -> Option<Timestamp> {
        self.pools.wake
    }

    /// The pools have to be looked after at `until` at the latest.
    pub(crate) fn wake_for_pools(&mut self, until: Timestamp) {
        self.pools.wake = Some(self.pools.wake.map_or(until, |wake| wake.min(until)));
    }

    /// The factories of all pools.
    pub(crate) fn members(&self) -> impl Iterator<Item = &scheduler::FactoryState> {
        self.fleet.pools().flat_map(|pool| self.fleet.of_pool(pool))
    }

    /// The registered factories of a pool, by name.
    pub(crate) fn members_of(&self, name: &PoolName) -> Vec<FactoryId> {
        self.fleet.of_pool(name).map(|member| member.factory.id.clone()).collect()
    }

    /// Forgets a factory that was removed.
    pub(crate) fn forget_member(&mut self, id: &FactoryId) {
        self.pools.idle_since.remove(id);
        self.pools.retiring.remove(id);
    }

    /// Records that a member runs in a new process: an earlier one was told to leave, not this one.
    pub(crate) fn note_new_process(&mut self, id: &FactoryId) {
        self.forget_member(id);
    }

    /// The shapes of promotions and merges that no factory can take.
    pub(crate) fn shapes_of_waiting_errands(&self, view: &scheduler::FleetView, limit: usize) -> Vec<Shape> {
        let shapes = self.ready_errands(limit).into_iter().filter_map(|id| Some(self.job(id)?.value.shape()));
        shapes.filter(|shape| scheduler::errand(view, shape, None).is_none()).collect()
    }

    /// The names of all pools, and of those that members remain of.
    fn pool_names(&self) -> BTreeSet<PoolName> {
        let declared = self.pools.declared.iter().map(|state| state.pool.name.clone());
        declared.chain(self.fleet.pools().cloned()).collect()
    }

    fn members_beyond_demand(&self, name: &PoolName) -> u32 {
        let Some(demand) = self.pools.noted.iter().find(|demand| demand.pool == *name) else {
            // The pool was removed.
            return u32::MAX;
        };
        let open = demand.present.saturating_sub(demand.closed);
        open.saturating_sub(demand.wanted.saturating_sub(demand.closed))
    }

    fn idle_members(&self, name: &PoolName) -> Vec<(Timestamp, FactoryId)> {
        let members = self.fleet.of_pool(name).filter(|member| !self.is_retiring(&member.factory.id));
        let since = |id: &FactoryId| self.pools.idle_since.get(id).map(|since| (*since, id.clone()));
        members.filter_map(|member| since(&member.factory.id)).collect()
    }

    fn note_idle_members(&mut self, now: Timestamp) {
        let members = self.members();
        let is_idle = |state: &&scheduler::FactoryState| {
            let id = &state.factory.id;
            state.presence == Presence::Live
                && self.fleet.used(id) == 0
                && self.leases_of_factory(id).is_empty()
                && self.errand_load(id) == 0
        };
        let idle: BTreeSet<FactoryId> = members.filter(is_idle).map(|state| state.factory.id.clone()).collect();
        self.pools.idle_since.retain(|id, _| idle.contains(id));
        for id in idle {
            self.pools.idle_since.entry(id).or_insert(now);
        }
    }
}

fn idle_after(state: &PoolState) -> Duration {
    Duration::from_millis(state.pool.idle_after_ms)
}

fn start_within(state: &PoolState) -> Duration {
    Duration::from_millis(state.pool.start_within_ms)
}

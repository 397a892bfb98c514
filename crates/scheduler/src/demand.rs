//! How many factories each pool should have [F9]: a pure function, from which scalers start machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{DispatchModes, PoolName, Shape, Timestamp};

use crate::filter::FilterCondition;
use crate::fleet::{FactoryState, Presence};
use crate::overlay::FleetOverlay;
use crate::plan::{Plan, UnplacedShape, plan};
use crate::pools::{PoolState, Pools, is_present};
use crate::view::{Demand, FleetView};

/// Members that are compared with what their pool declares. They are alike.
const COMPARED_MAX: usize = 16;

/// What a pool needs at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolDemand {
    /// The pool.
    pub pool: PoolName,
    /// Jobs that wait for a factory of it.
    pub waiting: u32,
    /// Since when the oldest of them waits.
    pub oldest: Option<Timestamp>,
    /// Promotions and merges that wait for a factory of it.
    pub errands: u32,
    /// Seats in use on its factories.
    pub used: u32,
    /// Its factories that run.
    pub present: u32,
    /// Those of them that take no more work: draining, without space on the disk, or not answering offers.
    pub closed: u32,
    /// The number of factories that should run, those that do included.
    pub wanted: u32,
    /// Shapes for which it was started, and that a factory which has joined does not fit.
    pub misfits: Vec<Arc<Shape>>,
}

/// The demand of every pool, by name. `errands` are the shapes of promotions and merges that no factory can take.
///
/// Counted are jobs that another machine would help: not those of paused products, at the limit of a repository or of a
/// credential, or pinned. Each goes to the cheapest pool that fits and has room.
pub fn demand(view: &FleetView, errands: &[Shape]) -> Vec<PoolDemand> {
    if view.pools.is_empty() {
        return Vec::new();
    }
    let mut needs: BTreeMap<&PoolName, PoolNeed> =
        view.pools.iter().map(|state| (&state.pool.name, PoolNeed::of(view, state))).collect();
    // The true reasons, of jobs that factories poll for as well.
    let (everything, no_pools) = (DispatchModes::default(), Pools::default());
    let whole = FleetView { flags: &everything, pools: &no_pools, limit: usize::MAX, ..*view };
    let Plan { placements, unplaced } = plan(&whole);
    for placement in &placements {
        let pool = view.fleet.get(&placement.factory).and_then(|state| state.factory.pool.as_ref());
        if let Some(need) = pool.and_then(|pool| needs.get_mut(pool)) {
            need.used_open += 1;
        }
    }
    for waiting in unplaced.iter().filter(|waiting| waiting.why.needs_another_factory()) {
        spread(view, waiting, &mut needs);
    }
    for shape in errands {
        let pools = view.pools.helping_errand(shape);
        if let Some(need) = pools.first().and_then(|pool| needs.get_mut(&pool.pool.name)) {
            need.errands += 1;
        }
    }
    needs.into_values().map(PoolNeed::demand).collect()
}

/// Gives the jobs of a shape to pools: to the cheapest first, as long as it has room. What no pool has room for waits for
/// the cheapest one.
fn spread<'a>(view: &FleetView<'a>, waiting: &UnplacedShape, needs: &mut BTreeMap<&'a PoolName, PoolNeed<'a>>) {
    let pools: Vec<&PoolState> = view.pools.helping(&waiting.shape);
    let mut left = u32::try_from(waiting.jobs).unwrap_or(u32::MAX);
    for pool in &pools {
        let Some(need) = needs.get_mut(&pool.pool.name) else { continue };
        if need.has_misfit(view, &waiting.shape) {
            need.misfits.push(Arc::clone(&waiting.shape));
            continue;
        }
        let taken = left.min(need.room());
        if taken > 0 {
            need.wait(taken, waiting.since);
            left -= taken;
        }
    }
    let fits =
        |pool: &&PoolState| needs.get(&pool.pool.name).is_some_and(|need| !need.misfits.contains(&waiting.shape));
    let cheapest = pools.iter().copied().find(fits).map(|pool| &pool.pool.name);
    if let Some(need) = cheapest.filter(|_| left > 0).and_then(|name| needs.get_mut(name)) {
        need.wait(left, waiting.since);
    }
}

/// The needs of one pool while jobs are given to pools.
struct PoolNeed<'a> {
    state: &'a PoolState,
    waiting: u32,
    oldest: Option<Timestamp>,
    errands: u32,
    /// Seats in use, and placed, on members that take work or are away.
    used_open: u32,
    /// Seats in use on members that take no more work.
    used_closed: u32,
    /// Members that take work.
    open: u32,
    /// Members that run and take no more work: draining, without space on the disk, or not answering offers.
    closed: u32,
    present: u32,
    /// Members that had no time to reconnect to a new coordinator.
    warming: u32,
    /// Members that hold jobs.
    busy: u32,
    misfits: Vec<Arc<Shape>>,
}

impl<'a> PoolNeed<'a> {
    fn of(view: &FleetView, state: &'a PoolState) -> Self {
        let mut need = Self {
            state,
            waiting: 0,
            oldest: None,
            errands: 0,
            used_open: 0,
            used_closed: 0,
            open: 0,
            closed: 0,
            present: 0,
            warming: 0,
            busy: 0,
            misfits: Vec::new(),
        };
        for member in view.fleet.of_pool(&state.pool.name) {
            need.count(member, view.fleet.used(&member.factory.id));
        }
        need
    }

    fn count(&mut self, member: &FactoryState, used: u32) {
        let is_present = is_present(member);
        let takes_none = member.factory.draining || member.disk_low || member.unresponsive.is_some();
        self.present += u32::from(is_present);
        self.busy += u32::from(used > 0);
        match (member.presence, takes_none) {
            (Presence::Live | Presence::Warming, false) => {
                self.open += 1;
                self.used_open += used;
            }
            (Presence::Live | Presence::Warming, true) => {
                self.closed += 1;
                self.used_closed += used;
            }
            (Presence::Disconnected | Presence::Stale | Presence::Down, _) => self.used_open += used,
        }
        self.warming += u32::from(member.presence == Presence::Warming);
    }

    /// Whether a member that has joined lacks what the pool declares for a shape.
    fn has_misfit(&self, view: &FleetView, shape: &Shape) -> bool {
        let overlay = FleetOverlay::of(view);
        let constraints = overlay.constraints(Demand { shape, since: view.now, avoid: None });
        let members = view
            .fleet
            .of_pool(&self.state.pool.name)
            .filter(|member| member.presence == Presence::Live)
            .take(COMPARED_MAX);
        members.filter_map(|member| view.fleet.member(&member.factory.id)).any(|member| {
            // Its remote may only be away for the moment.
            let is_remote_away =
                shape.repo.as_ref().is_some_and(|repo| member.state.factory.unavailable_repos.contains_key(repo));
            let condition = FilterCondition::stopping(&overlay.candidate(member, &constraints), &constraints);
            !is_remote_away && condition.is_some_and(FilterCondition::is_about_what_it_offers)
        })
    }

    /// Jobs that the pool has room for, on factories that run and on those that it may still start.
    fn room(&self) -> u32 {
        let Self { state, closed, used_open, waiting, .. } = self;
        let seats = state.pool.max.saturating_sub(*closed).saturating_mul(state.pool.seats);
        seats.saturating_sub(used_open.saturating_add(*waiting))
    }

    fn wait(&mut self, jobs: u32, since: Timestamp) {
        self.waiting = self.waiting.saturating_add(jobs);
        self.oldest = Some(self.oldest.map_or(since, |oldest| oldest.min(since)));
    }

    fn demand(self) -> PoolDemand {
        PoolDemand {
            pool: self.state.pool.name.clone(),
            waiting: self.waiting,
            oldest: self.oldest,
            errands: self.errands,
            used: self.used_open + self.used_closed,
            present: self.present,
            closed: self.closed,
            wanted: self.wanted(),
            misfits: self.misfits,
        }
    }

    fn wanted(&self) -> u32 {
        let pool = &self.state.pool;
        let seats = pool.seats.max(1);
        let mut need = self.waiting.saturating_add(self.used_open).div_ceil(seats);
        if self.waiting > 0 {
            // No factory that runs can take these jobs, even if it has seats: an engine of it may be busy.
            need = need.max(self.open.saturating_add(self.waiting.div_ceil(seats)));
        }
        need = need.max(u32::from(self.errands > 0 && self.open == 0)).max(pool.warm);
        let wanted = need.saturating_add(self.closed).min(pool.max);
        // After a restart the coordinator does not know yet which factories still run: none may be stopped.
        if self.warming > 0 { wanted.max(self.present.max(self.busy)) } else { wanted }
    }
}

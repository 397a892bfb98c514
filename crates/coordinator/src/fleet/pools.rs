//! Pools: factories that are started on demand, and retired when they are idle [F9].

use std::time::Duration;

use domain::{Capability, Collection, Expected, FactoryId, Pool, PoolName, Shape, TokenScope, Versioned};
use protocol::{Alert, AlertCode, Directive, PoolList, PoolScale, PoolSettings, PoolView, ScaleResponse};
use scheduler::{PoolDemand, PoolState, Presence};
use tracing::{info, warn};

use crate::commit::cas_documents::{PutOutcome, is_conflict};
use crate::coordinator::Coordinator;
use crate::coordinator::purpose::Purpose;
use crate::dispatch::ROUND_MAX;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::fleet::tokens::Secret;
use crate::read::alerts::{about, alert};
use crate::state::FleetState;
use crate::submit::invalid;

/// Pools of a fleet.
const POOLS_MAX: usize = 256;

/// Factories of a pool. More are a typing mistake.
const MEMBERS_MAX: u32 = 10_000;

/// Seats of one factory. More are a typing mistake.
const SEATS_MAX: u32 = 10_000;

/// Capabilities, engines, repositories and products of a pool, each.
const LIST_MAX: usize = 1_000;

/// The longest time in which a factory may join, and after which an idle one is retired: a week.
const TIME_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1_000;

/// How long a stopped factory may still report how its runs ended.
const FAREWELL: Duration = Duration::from_secs(2);

impl Coordinator {
    /// The pools that the caller may see, with their demand.
    pub fn pools(&self, who: &Principal) -> Result<PoolList, Error> {
        who.require_fleet_view()?;
        let state = self.state.lock();
        let scales = self.scales(&state);
        let shown = state.pools().iter().zip(scales).filter(|(pool, _)| is_shown(who, &pool.pool));
        Ok(PoolList { items: shown.map(|(pool, scale)| view(pool, scale)).collect() })
    }

    /// One pool.
    pub fn pool(&self, who: &Principal, name: &PoolName) -> Result<PoolView, Error> {
        let found = self.pools(who)?.items.into_iter().find(|view| view.pool.name == *name);
        found.ok_or_else(|| Error::NoSuchPool(name.clone()))
    }

    /// How many factories each pool should have. Never from a coordinator that may have been replaced: a scaler must not
    /// take its answer for "none".
    pub fn scale(&self, who: &Principal, name: Option<&PoolName>) -> Result<ScaleResponse, Error> {
        who.require_fleet_view()?;
        self.lead()?;
        let pools = match name {
            Some(name) => vec![self.pool(who, name)?.scale],
            None => self.pools(who)?.items.into_iter().map(|view| view.scale).collect(),
        };
        let wanted = pools.iter().fold(0_u32, |sum, pool| sum.saturating_add(pool.wanted));
        Ok(ScaleResponse { wanted, pools })
    }

    /// Declares a pool, or replaces its declaration. What it learned about shapes that it cannot serve is forgotten.
    pub async fn put_pool(&self, who: &Principal, name: &PoolName, settings: PoolSettings) -> Result<PoolView, Error> {
        who.require_admin()?;
        let pool = settings.named(name.clone());
        check(&pool)?;
        let known = {
            let state = self.state.lock();
            if state.pools().get(name).is_none() && state.pools().iter().count() >= POOLS_MAX {
                return Err(invalid("name", format!("there are {POOLS_MAX} pools already")));
            }
            state.versioned_pool(name)
        };
        let expected = known.map_or(Expected::Absent, |known| Expected::At(known.revision));
        match self.put_document(Collection::Pools, name.as_str(), expected, Some(&pool)).await? {
            PutOutcome::Written(revision) => self.state.lock().put_pool(Versioned { value: pool, revision }),
            PutOutcome::Lost(found) => {
                self.cache_pool(name, found);
                return Err(is_conflict());
            }
        }
        info!(pool = %name, by = %who.name, "`{}` set pool `{name}`", who.name);
        self.after_pool_change();
        self.pool(who, name)
    }

    /// Removes a pool. Its factories finish their jobs and leave.
    pub async fn delete_pool(&self, who: &Principal, name: &PoolName) -> Result<(), Error> {
        who.require_admin()?;
        let known = self.state.lock().versioned_pool(name).ok_or_else(|| Error::NoSuchPool(name.clone()))?;
        let expected = Expected::At(known.revision);
        match self.put_document::<Pool>(Collection::Pools, name.as_str(), expected, None).await? {
            PutOutcome::Written(_) | PutOutcome::Lost(None) => self.state.lock().remove_pool(name),
            PutOutcome::Lost(found) => {
                self.cache_pool(name, found);
                return Err(is_conflict());
            }
        }
        info!(pool = %name, by = %who.name, "`{}` removed pool `{name}`", who.name);
        self.after_pool_change();
        Ok(())
    }

    /// A join token for one factory of a pool of the local fleet.
    pub async fn pool_join_token(&self, pool: PoolName, factory: FactoryId) -> Result<Secret, Error> {
        let (products, capabilities) = Default::default();
        let grant = TokenScope::Join { factory: Some(factory), products, capabilities, pool: Some(pool) };
        Purpose::Start.scope(self.local_join_token(grant)).await
    }

    /// Whether a factory of this name may join a pool.
    pub(crate) fn check_membership(&self, pool: &PoolName, id: &FactoryId) -> Result<(), Error> {
        let state = self.state.lock();
        let Some(known) = state.pools().get(pool) else {
            return Err(Error::Forbidden(format!("pool `{pool}` does not exist any more")));
        };
        if !known.pool.may_name(id) {
            return Err(Error::Forbidden(format!("the name of a factory of pool `{pool}` begins with `{pool}-`")));
        }
        // Twice as many as may run: those that have just ended are still registered.
        let members = state.factories().filter(|factory| factory.pool.as_ref() == Some(pool)).count();
        let most = (known.pool.max as usize).saturating_mul(2).saturating_add(8);
        if members >= most {
            return Err(Error::NotReady(format!("pool `{pool}` has {members} factories already")));
        }
        Ok(())
    }

    /// Notes what the pools need, tells idle members to leave, and removes those that have left. Idempotent; without a pool
    /// it does nothing.
    pub(crate) async fn tend_pools(&self) {
        let (retired, gone) = {
            let mut state = self.state.lock();
            if !state.has_pools() {
                return;
            }
            let (now, before) = (self.steady(), state.next_pool_wake());
            let demands = self.demands(&state);
            if state.note_demand(demands, now) {
                self.live.note();
            }
            let retired = state.retire_members(now);
            for id in &retired {
                self.show_to_scheduler(&mut state, id);
            }
            let gone = self.members_that_left(&mut state);
            let wake = state.next_pool_wake();
            if wake.is_some_and(|wake| before.is_none_or(|before| wake < before)) {
                self.timer.notify_one();
            }
            (retired, gone)
        };
        for id in &retired {
            info!(factory.id = %id, "Factory `{id}` is not needed any more, telling it to leave");
            self.inboxes.direct(id, Directive::Leave);
        }
        for id in &gone {
            // A failure is repeated with the next change or heartbeat.
            if let Err(error) = self.remove_member(id).await {
                warn!(factory.id = %id, %error, "Could not remove factory `{id}`, which has left its pool");
            }
        }
    }

    /// Members that have stopped or are silent, and hold nothing.
    fn members_that_left(&self, state: &mut FleetState) -> Vec<FactoryId> {
        let now = self.ports.clock.monotonic();
        let (mut gone, mut next) = (Vec::new(), None);
        for member in state.members() {
            let id = &member.factory.id;
            if !state.leases_of_factory(id).is_empty() || state.errand_load(id) > 0 {
                continue;
            }
            let silence = state.liveness_of(id).map(|pulse| now.saturating_sub(pulse.heard));
            match (member.presence, silence) {
                (Presence::Down, Some(silence)) if silence < FAREWELL => {
                    let rest = FAREWELL - silence;
                    next = Some(next.map_or(rest, |next: Duration| next.min(rest)));
                }
                (Presence::Down | Presence::Stale, _) => gone.push(id.clone()),
                (Presence::Live | Presence::Warming | Presence::Disconnected, _) => {}
            }
        }
        if let Some(next) = next {
            state.wake_for_pools(self.steady().after(next));
        }
        gone
    }

    /// Pools whose factories do not join in time, or do not offer what the pool declares.
    pub(crate) fn pool_alerts(&self, who: &Principal) -> Vec<Alert> {
        let state = self.state.lock();
        let scales = self.scales(&state);
        let shown = state.pools().iter().zip(scales).filter(|(pool, _)| is_shown(who, &pool.pool));
        let mut alerts = Vec::new();
        for (pool, scale) in shown {
            let name = &pool.pool.name;
            if let Some(since) = scale.since.filter(|_| scale.overdue) {
                let missing = domain::counted(scale.starting, "factory").replace("factorys", "factories");
                let message = format!(
                    "pool `{name}` has waited for {missing} since {}: check that `giga scaler` runs and can start machines",
                    since.to_the_second()
                );
                alerts.push(about(alert(AlertCode::PoolNotStarting, message, since, None), name));
            }
            if let Some(misfit) = pool.misfits.first() {
                let message = format!(
                    "a factory of pool `{name}` joined and cannot run jobs that the pool declares to fit, such as those of product                      `{}`{}: correct it with `giga pool set {name}`",
                    misfit.product,
                    needs_of(misfit)
                );
                let since = self.wall_time(self.steady());
                alerts.push(about(alert(AlertCode::PoolNotStarting, message, since, None), name));
            }
        }
        alerts
    }

    fn demands(&self, state: &FleetState) -> Vec<PoolDemand> {
        let view = state.view(self.steady(), &self.settings.weights, usize::MAX);
        scheduler::demand(&view, &state.shapes_of_waiting_errands(&view, ROUND_MAX))
    }

    fn scales(&self, state: &FleetState) -> Vec<PoolScale> {
        let now = self.steady();
        let demands = self.demands(state);
        let scale = |demand: PoolDemand| {
            let known = state.pools().get(&demand.pool)?;
            let starting = demand.wanted.saturating_sub(demand.present);
            Some(PoolScale {
                wanted: demand.wanted,
                live: demand.present,
                starting,
                since: known.starting_since.filter(|_| starting > 0).map(|since| self.wall_time(since)),
                overdue: starting > 0 && known.is_overdue(now),
                waiting: demand.waiting,
                used: demand.used,
                max: known.pool.max,
                start_within_ms: known.pool.start_within_ms,
                members: state.members_of(&demand.pool),
                pool: demand.pool,
            })
        };
        demands.into_iter().filter_map(scale).collect()
    }

    fn cache_pool(&self, name: &PoolName, found: Option<Versioned<Pool>>) {
        let mut state = self.state.lock();
        match found {
            Some(found) => state.put_pool(found),
            None => state.remove_pool(name),
        }
    }

    fn after_pool_change(&self) {
        self.live.note();
        self.work.notify_one();
        self.timer.notify_one();
    }
}

/// Whether a caller may see a pool: its factories work for a product of the caller.
fn is_shown(who: &Principal, pool: &Pool) -> bool {
    let visible = who.products();
    visible.is_empty() || pool.products.is_empty() || !pool.products.is_disjoint(&visible)
}

/// What jobs of a shape need: ` that need `has:docker``.
fn needs_of(shape: &Shape) -> String {
    let engines = shape.engines.iter().map(Capability::engine);
    let needs = shape.capabilities.iter().cloned().chain(engines).chain(shape.repo.as_ref().map(Capability::repo));
    let needs: Vec<String> = needs.map(|need| format!("`{need}`")).collect();
    if needs.is_empty() { String::new() } else { format!(" that need {}", needs.join(", ")) }
}

fn view(state: &PoolState, scale: PoolScale) -> PoolView {
    PoolView { pool: state.pool.clone(), scale, broken: !state.misfits.is_empty() }
}

fn check(pool: &Pool) -> Result<(), Error> {
    if !(1..=MEMBERS_MAX).contains(&pool.max) {
        return Err(invalid("max", format!("1 to {MEMBERS_MAX}, found {}", pool.max)));
    }
    if pool.warm > pool.max {
        return Err(invalid("warm", format!("at most `max`, which is {}, found {}", pool.max, pool.warm)));
    }
    if !(1..=SEATS_MAX).contains(&pool.seats) {
        return Err(invalid("seats", format!("1 to {SEATS_MAX}, found {}", pool.seats)));
    }
    if pool.cost > 100 {
        return Err(invalid("cost", format!("0 to 100, found {}", pool.cost)));
    }
    let lists = [
        ("capabilities", pool.capabilities.len()),
        ("engines", pool.engines.len()),
        ("repos", pool.repos.len()),
        ("products", pool.products.len()),
    ];
    if let Some((what, _)) = lists.into_iter().find(|(_, len)| *len > LIST_MAX) {
        return Err(invalid(what, format!("{LIST_MAX} at most")));
    }
    for (what, millis) in [("startWithinMs", pool.start_within_ms), ("idleAfterMs", pool.idle_after_ms)] {
        if !(1..=TIME_MS_MAX).contains(&millis) {
            return Err(invalid(what, format!("1 to {TIME_MS_MAX} (a week), found {millis}")));
        }
    }
    if pool.engines.is_empty() {
        return Err(invalid("engines", "a factory without an engine runs no job: name at least one".to_owned()));
    }
    Ok(())
}

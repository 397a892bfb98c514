//! What open event streams tell beside the events of jobs: factories, alerts, modes, metrics, and how much needs a
//! person.
//!
//! It is computed only while a stream is open and after something changed, once a second at most, and once for all
//! streams with the same scope. An idle fleet with open streams costs no store operation and no timer [I14].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use domain::{FactoryId, ProductId, Revision, TokenScope, Versioned};
use foldhash::HashMap;
use parking_lot::Mutex;
use protocol::{Alert, AlertChange, AlertEvent, FactoryChange, FactoryEvent, Metrics, NeedsEvent, StreamEvent};
use scheduler::{FactoryState, Presence};
use tokio::sync::watch;
use tracing::warn;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::state::FleetState;

/// The shortest time between two computations for one scope, and between two frames of one kind.
const EVERY: Duration = Duration::from_secs(1);

/// A computation pauses for this many times its duration: at most a twentieth of a core is used for it.
const PAUSE_FACTOR: u32 = 20;

/// Changes of factories kept for subscribers. There are fewer factories.
const FACTORIES_MAX: usize = 16_384;

/// Counts the changes of the fleet, and wakes the subscribers.
pub(crate) struct LiveBoard {
    changes: watch::Sender<u64>,
    factories: Mutex<HashMap<FactoryId, FactoryEntry>>,
    scopes: Mutex<Vec<(TokenScope, Weak<LiveScope>)>>,
}

/// The last change of a factory.
struct FactoryEntry {
    number: u64,
    change: FactoryChange,
    /// The products that a removed factory worked for; all when empty, unknown when `None`.
    served: Option<BTreeSet<ProductId>>,
}

/// What all subscribers with the same scope share.
#[derive(Default)]
struct LiveScope {
    computing: tokio::sync::Mutex<()>,
    latest: Mutex<Option<Arc<Snapshot>>>,
}

/// The state of the fleet as one scope sees it.
struct Snapshot {
    /// The number of changes that it includes.
    number: u64,
    /// When the next one may be computed, on the monotonic clock.
    next_at: Duration,
    /// The alerts, each with the number of affected jobs.
    alerts: BTreeMap<AlertEvent, Option<u64>>,
    metrics: Metrics,
    needs: u64,
}

/// How old a snapshot may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freshness {
    /// It includes every requested change.
    Exact,
    /// The latest one, unless enough time has passed for another.
    Recent,
}

/// One subscriber's view of the board.
pub(crate) struct LiveFollower {
    who: Principal,
    scope: Arc<LiveScope>,
    changes: watch::Receiver<u64>,
    /// The changes up to this number were sent.
    seen: u64,
    /// Nothing is sent before this time.
    next_at: Duration,
    shown: Option<Arc<Snapshot>>,
    modes: Revision,
}

impl Default for LiveBoard {
    fn default() -> Self {
        Self { changes: watch::Sender::new(0), factories: Mutex::default(), scopes: Mutex::default() }
    }
}

impl LiveBoard {
    /// Something changed that a stream may show.
    pub(crate) fn note(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    /// A factory changed.
    pub(crate) fn note_factory(&self, id: &FactoryId, change: FactoryChange, served: Option<BTreeSet<ProductId>>) {
        let mut factories = self.factories.lock();
        let number = *self.changes.borrow() + 1;
        if factories.len() >= FACTORIES_MAX && !factories.contains_key(id) {
            factories.retain(|_, entry| entry.change != FactoryChange::Removed);
        }
        factories.insert(id.clone(), FactoryEntry { number, change, served });
        // Under the lock: a subscriber that sees the number finds the change.
        self.note();
    }

    /// Sees every change from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn scope(&self, grant: &TokenScope) -> Arc<LiveScope> {
        let mut scopes = self.scopes.lock();
        scopes.retain(|(_, scope)| scope.strong_count() > 0);
        if let Some(scope) = scopes.iter().find(|(known, _)| known == grant).and_then(|(_, scope)| scope.upgrade()) {
            return scope;
        }
        let scope = Arc::new(LiveScope::default());
        scopes.push((grant.clone(), Arc::downgrade(&scope)));
        scope
    }
}

impl Coordinator {
    /// Subscribes to what a stream tells beside events. The state at this moment counts as known to the client, which
    /// reads it after the stream is open.
    pub(crate) async fn follow_live(&self, who: &Principal) -> LiveFollower {
        let scope = self.live.scope(&who.grant);
        let mut changes = self.live.changes.subscribe();
        let seen = *changes.borrow_and_update();
        let modes = self.modes.now().revision;
        // A snapshot from before this moment would hide an alert that is raised before it and ends after it.
        let shown = self.snapshot(who, &scope, seen, Freshness::Exact).await;
        let seen = shown.as_ref().map_or(seen, |shown| shown.number.max(seen));
        LiveFollower { who: who.clone(), scope, changes, seen, next_at: Duration::ZERO, shown, modes }
    }

    /// The snapshot of a scope that includes the changes up to `number`. `None` when the store does not answer.
    async fn snapshot(
        &self,
        who: &Principal,
        scope: &LiveScope,
        number: u64,
        freshness: Freshness,
    ) -> Option<Arc<Snapshot>> {
        let is_recent = |known: &Snapshot| match freshness {
            Freshness::Exact => false,
            Freshness::Recent => self.ports.clock.monotonic() < known.next_at,
        };
        let is_current = |known: &Arc<Snapshot>| known.number >= number || is_recent(known);
        if let Some(known) = scope.latest.lock().clone().filter(is_current) {
            return Some(known);
        }
        let _turn = scope.computing.lock().await;
        if let Some(known) = scope.latest.lock().clone().filter(is_current) {
            return Some(known);
        }
        match self.compute_snapshot(who).await {
            Ok(snapshot) => {
                let snapshot = Arc::new(snapshot);
                *scope.latest.lock() = Some(Arc::clone(&snapshot));
                Some(snapshot)
            }
            Err(error) => {
                warn!(%error, "Cannot compute alerts and metrics for event streams, retrying");
                None
            }
        }
    }

    async fn compute_snapshot(&self, who: &Principal) -> Result<Snapshot, Error> {
        let started = self.ports.clock.monotonic();
        // Read first: a change during the computation is computed again.
        let number = *self.live.changes.borrow();
        let alerts = self.alerts(who).await?.items;
        let metrics = self.metrics(who).await?;
        let needs = self.needs_total(who, &alerts).await?;
        let ended = self.ports.clock.monotonic();
        let pause = (ended.saturating_sub(started) * PAUSE_FACTOR).max(EVERY);
        Ok(Snapshot { number, next_at: ended + pause, alerts: alerts.iter().map(raised).collect(), metrics, needs })
    }

    /// Records a change of a factory for open streams.
    pub(crate) fn note_factory_change(&self, before: Option<&FactoryState>, after: &FactoryState) {
        if let Some(change) = change_between(before, after) {
            self.live.note_factory(&after.factory.id, change, None);
        }
    }

    /// Records that a factory was removed, for those who could see it.
    pub(crate) fn note_factory_removed(&self, state: &FleetState, id: &FactoryId) {
        let served = self.served_products(state, id);
        self.live.note_factory(id, FactoryChange::Removed, served);
    }

    /// The changes of factories after the start of `numbers` up to its end that the caller may see, in order.
    fn factory_events(&self, who: &Principal, numbers: Range<u64>) -> Vec<StreamEvent> {
        let state = self.state.lock();
        let factories = self.live.factories.lock();
        let visible = who.products();
        let shows = |id: &FactoryId, entry: &FactoryEntry| match entry.change {
            FactoryChange::Removed => {
                let is_served = |served: &BTreeSet<ProductId>| served.is_empty() || !served.is_disjoint(&visible);
                visible.is_empty() || entry.served.as_ref().is_some_and(is_served)
            }
            _ => self.shows_factory(who, &state, id),
        };
        let news = factories.iter().filter(|(id, entry)| numbers.contains(&(entry.number - 1)) && shows(id, entry));
        let mut news: Vec<_> = news.map(|(id, entry)| (entry.number, id, entry.change)).collect();
        news.sort_unstable_by_key(|(number, _, _)| *number);
        let event = |(_, id, change): (u64, &FactoryId, FactoryChange)| {
            StreamEvent::Factory(FactoryEvent { factory_id: id.clone(), change })
        };
        news.into_iter().map(event).collect()
    }
}

impl LiveFollower {
    /// Whether something changed and may be sent now.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.has_news() && now >= self.next_at
    }

    fn has_news(&self) -> bool {
        *self.changes.borrow() != self.seen
    }

    /// Waits until something changed and may be sent.
    pub(crate) async fn wait(&mut self, coordinator: &Coordinator) {
        while !self.has_news() {
            if self.changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
        let now = coordinator.ports.clock.monotonic();
        if now < self.next_at {
            coordinator.ports.clock.sleep(self.next_at - now).await;
        }
    }

    /// What changed since the last call.
    pub(crate) async fn news(&mut self, coordinator: &Coordinator) -> Vec<StreamEvent> {
        let number = *self.changes.borrow();
        let snapshot = coordinator.snapshot(&self.who, &self.scope, number, Freshness::Recent).await;
        // Nothing is awaited from here on: a call that was dropped before has changed nothing.
        let now = coordinator.ports.clock.monotonic();
        let Some(snapshot) = snapshot else {
            self.next_at = now + EVERY;
            return Vec::new();
        };
        if snapshot.number <= self.seen && number > self.seen {
            // The latest snapshot is too recent for another one.
            self.next_at = snapshot.next_at;
            return Vec::new();
        }
        let mut events = coordinator.factory_events(&self.who, self.seen..snapshot.number);
        events.extend(self.flags(coordinator));
        events.extend(self.differences(&snapshot));
        self.seen = snapshot.number;
        self.next_at = snapshot.next_at.max(now + EVERY);
        self.shown = Some(snapshot);
        events
    }

    fn flags(&mut self, coordinator: &Coordinator) -> Option<StreamEvent> {
        let Versioned { value, revision } = coordinator.flags(&self.who).ok()?;
        (std::mem::replace(&mut self.modes, revision) != revision).then_some(StreamEvent::Flags(value))
    }

    fn differences(&self, now: &Snapshot) -> Vec<StreamEvent> {
        let before = self.shown.as_deref();
        let none = BTreeMap::new();
        let known = before.map_or(&none, |before| &before.alerts);
        let cleared = known.keys().filter(|alert| !now.alerts.contains_key(alert));
        let cleared = cleared.map(|alert| AlertEvent { change: AlertChange::Cleared, ..alert.clone() });
        let raised = now.alerts.iter().filter(|(alert, jobs)| known.get(alert) != Some(jobs));
        let mut events: Vec<_> =
            cleared.chain(raised.map(|(alert, _)| alert.clone())).map(StreamEvent::Alert).collect();
        if before.is_none_or(|before| !is_same(&before.metrics, &now.metrics)) {
            events.push(StreamEvent::Metrics(now.metrics.clone()));
        }
        if before.is_none_or(|before| before.needs != now.needs) {
            events.push(StreamEvent::Needs(NeedsEvent { count: now.needs }));
        }
        events
    }
}

/// Whether two metrics show the same state. Store operations are left out: computing the metrics is one itself.
fn is_same(one: &Metrics, other: &Metrics) -> bool {
    let bare = |metrics: &Metrics| Metrics {
        store_operations: BTreeMap::new(),
        store_use: BTreeMap::new(),
        ..metrics.clone()
    };
    bare(one) == bare(other)
}

fn raised(alert: &Alert) -> (AlertEvent, Option<u64>) {
    let Alert { code, job_id, .. } = *alert;
    let factory_id = alert.factory_id.clone();
    let product_id = alert.product_id.clone().filter(|_| job_id.is_none());
    let event = AlertEvent { code, change: AlertChange::Raised, factory_id, product_id, job_id };
    // A warning at the next level is raised again.
    (event, alert.jobs)
}

/// The change of a factory that users see. Its load and its free disk space change all the time and are none.
fn change_between(before: Option<&FactoryState>, after: &FactoryState) -> Option<FactoryChange> {
    let is_live = |state: &FactoryState| state.presence == Presence::Live;
    let Some(before) = before else {
        return Some(if is_live(after) { FactoryChange::Online } else { FactoryChange::Updated });
    };
    match (is_live(before), is_live(after)) {
        (false, true) => return Some(FactoryChange::Online),
        (true, false) => return Some(FactoryChange::Offline),
        (true, true) | (false, false) => {}
    }
    match (before.factory.draining, after.factory.draining) {
        (false, true) => return Some(FactoryChange::Draining),
        (true, false) => return Some(FactoryChange::Resumed),
        (true, true) | (false, false) => {}
    }
    let is_same = before.factory == after.factory
        && before.presence == after.presence
        && before.products == after.products
        && before.disk_low == after.disk_low
        && before.unresponsive == after.unresponsive
        && before.resting == after.resting;
    (!is_same).then_some(FactoryChange::Updated)
}

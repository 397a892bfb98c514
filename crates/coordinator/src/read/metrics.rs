//! The metrics of the fleet [D4].

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::{FactoryId, JobId, Timestamp};
use foldhash::HashMap;
use parking_lot::Mutex;
use protocol::Metrics;

use crate::coordinator::Coordinator;
use crate::dispatch::inbox::depth;
use crate::error::Error;
use crate::fleet::principal::Principal;

/// How long a rejected dispatch is shown. It is repeated by the sweep: only its frequency is of interest.
const DUPLICATE_SHOWN: Duration = Duration::from_hours(1);

/// The weight of one outcome in a factory's health: about the last ten count.
const HEALTH_STEP: f64 = 0.1;

/// The counters since the start.
#[derive(Default)]
pub(crate) struct Counters {
    submitted: AtomicU64,
    dispatched: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    conflicts: AtomicU64,
    lag_ms: AtomicU64,
    lags: Mutex<HashMap<FactoryId, u64>>,
    health: Mutex<HashMap<FactoryId, f64>>,
    duplicates: Mutex<Vec<(JobId, Timestamp)>>,
}

/// A snapshot of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsSnapshot {
    /// Submitted jobs.
    pub submitted: u64,
    /// Offers written.
    pub dispatched: u64,
    /// Completed runs.
    pub completed: u64,
    /// Failed attempts.
    pub failed: u64,
    /// Writes that lost a race or were fenced.
    pub conflicts: u64,
    /// How long the last dispatched job had waited, in milliseconds.
    pub dispatch_lag_ms: u64,
}

impl Counters {
    pub(crate) fn submitted(&self) {
        self.submitted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn dispatched(&self, factory: &FactoryId, lag: Duration) {
        let lag = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
        self.dispatched.fetch_add(1, Ordering::Relaxed);
        self.lag_ms.store(lag, Ordering::Relaxed);
        let mut lags = self.lags.lock();
        match lags.get_mut(factory) {
            Some(last) => *last = lag,
            None => drop(lags.insert(factory.clone(), lag)),
        }
    }

    /// How long the last job that was dispatched to a factory had waited, in milliseconds.
    pub(crate) fn lag(&self, factory: &FactoryId) -> Option<u64> {
        self.lags.lock().get(factory).copied()
    }

    pub(crate) fn completed(&self, factory: &FactoryId) {
        self.completed.fetch_add(1, Ordering::Relaxed);
        self.record_outcome(factory, 1.0);
    }

    pub(crate) fn failed(&self, factory: &FactoryId, is_its_fault: bool) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        if is_its_fault {
            self.record_outcome(factory, 0.0);
        }
    }

    pub(crate) fn conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn duplicate_dispatch(&self, job: JobId, at: Timestamp) {
        let mut duplicates = self.duplicates.lock();
        duplicates.retain(|(_, since)| at.since(*since) < DUPLICATE_SHOWN);
        // A hundred is enough to show; the log has all of them.
        if duplicates.len() < 100 {
            duplicates.push((job, at));
        }
    }

    /// The dispatches that the broker rejected within the last hour.
    pub(crate) fn duplicates(&self, now: Timestamp) -> Vec<(JobId, Timestamp)> {
        let duplicates = self.duplicates.lock();
        duplicates.iter().filter(|(_, since)| now.since(*since) < DUPLICATE_SHOWN).copied().collect()
    }

    /// The recent success of a factory's runs: 1 is without failures.
    pub(crate) fn health(&self, factory: &FactoryId) -> f64 {
        self.health.lock().get(factory).copied().unwrap_or(1.0)
    }

    pub(crate) fn forget(&self, factory: &FactoryId) {
        self.health.lock().remove(factory);
        self.lags.lock().remove(factory);
    }

    fn record_outcome(&self, factory: &FactoryId, outcome: f64) {
        let mut health = self.health.lock();
        let entry = health.entry(factory.clone()).or_insert(1.0);
        *entry += (outcome - *entry) * HEALTH_STEP;
    }
}

impl Coordinator {
    /// Records that a job was dispatched after it had waited this long.
    pub(crate) fn note_dispatched(&self, factory: &FactoryId, lag: Duration) {
        self.counters.dispatched(factory, lag);
        self.record_lag(crate::fleet::registry::millis(lag));
    }

    /// The counters since the start.
    pub fn metrics_snapshot(&self) -> MetricsSnapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MetricsSnapshot {
            submitted: read(&self.counters.submitted),
            dispatched: read(&self.counters.dispatched),
            completed: read(&self.counters.completed),
            failed: read(&self.counters.failed),
            conflicts: read(&self.counters.conflicts),
            dispatch_lag_ms: read(&self.counters.lag_ms),
        }
    }

    /// How long the last job that was dispatched to each factory had waited, in milliseconds: of the factories that the
    /// caller may see.
    pub fn factory_lags(&self, who: &Principal) -> Result<Vec<(FactoryId, u64)>, Error> {
        who.require_fleet_view()?;
        let state = self.state.lock();
        let lags = self.counters.lags.lock();
        let shown = lags.iter().filter(|(factory, _)| self.shows_factory(who, &state, factory));
        let mut shown: Vec<_> = shown.map(|(factory, lag)| (factory.clone(), *lag)).collect();
        shown.sort_unstable();
        Ok(shown)
    }

    /// The metrics of the fleet.
    pub async fn metrics(&self, who: &Principal) -> Result<Metrics, Error> {
        who.require_fleet_view()?;
        let mut jobs = std::collections::BTreeMap::new();
        for (product, stage, count) in self.ports.history.census().await? {
            if who.sees(&product) {
                *jobs.entry(stage.as_str().to_owned()).or_insert(0) += count;
            }
        }
        let seats = self.seat_metrics(who).await;
        let figures = self.metrics_snapshot();
        // The store's operations belong to the whole fleet.
        let operations = if who.products().is_empty() { self.ports.history.operations() } else { Vec::new() };
        Ok(Metrics {
            ignored_request_keys: 0,
            dead_letters: jobs.get("dead_letter").copied().unwrap_or(0),
            jobs,
            waiting: seats.waiting,
            depth: seats.depth,
            seats_used: seats.used,
            seats: seats.all,
            dispatch_lag_ms: figures.dispatch_lag_ms,
            conflicts: figures.conflicts,
            store_operations: operations.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect(),
            store_use: if who.products().is_empty() { self.store_use.by_purpose() } else { Default::default() },
        })
    }

    /// Seats and waiting jobs. For a token limited to some products: their jobs, and the factories that work for them.
    async fn seat_metrics(&self, who: &Principal) -> SeatMetrics {
        let (metrics, factories) = {
            let state = self.state.lock();
            let factories = state.factories().filter(|factory| self.shows_factory(who, &state, &factory.id));
            let (ids, seats): (BTreeSet<FactoryId>, Vec<u64>) =
                factories.map(|factory| (factory.id.clone(), u64::from(factory.seat_limit))).unzip();
            let all = seats.iter().sum();
            let products = who.products();
            if products.is_empty() {
                let (waiting, used) = (state.waiting_count(&products) as u64, state.lease_count() as u64);
                (SeatMetrics { waiting, depth: 0, used, all }, ids)
            } else {
                let waiting = products.iter().map(|product| state.queue_version(product).1).sum();
                let own = || state.jobs().map(|job| &job.value).filter(|job| who.sees(job.product()));
                let depth = own().filter(|job| job.dispatch().is_some()).count() as u64;
                let used = own().filter(|job| state.lease_expiry(job.id()).is_some()).count() as u64;
                return SeatMetrics { waiting, depth, used, all };
            }
        };
        SeatMetrics { depth: depth(self.ports.broker.as_ref(), &factories).await, ..metrics }
    }
}

/// Seats and waiting jobs.
struct SeatMetrics {
    waiting: u64,
    depth: u64,
    used: u64,
    all: u64,
}

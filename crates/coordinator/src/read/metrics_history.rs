//! The metrics of the last hour, in memory.
//!
//! A step begins with the first change in it and is closed by the first change of a later one: there is no timer, and
//! an idle fleet records nothing [I14].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use domain::{ProductId, Timestamp};
use parking_lot::Mutex;
use protocol::{LagQuantiles, MetricsHistory, MetricsPoint, StoreOperationCounts};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::state::FleetState;

/// The length of a step.
const STEP: Duration = Duration::from_secs(10);

/// An hour of steps.
const POINTS_MAX: usize = 360;

/// Lags kept per step: enough for the 99th percentile.
const LAGS_MAX: usize = 1_024;

/// The steps of the last hour.
#[derive(Default)]
pub(crate) struct HistoryRecorder {
    steps: Mutex<Steps>,
}

#[derive(Default)]
struct Steps {
    closed: VecDeque<Step>,
    open: Option<Step>,
    /// Lags of dispatches whose commit begins the next step.
    ahead: Vec<u64>,
}

/// One step.
#[derive(Debug, Clone)]
struct Step {
    number: u128,
    at: Timestamp,
    /// The store's counters at its start; at its end, what was added.
    operations: StoreOperationCounts,
    lags: Vec<u64>,
    lag_count: usize,
    claims: BTreeMap<ProductId, u64>,
    load: Load,
}

/// The load of the fleet at one moment.
#[derive(Debug, Clone, Default)]
struct Load {
    seats: u64,
    queued: BTreeMap<ProductId, u64>,
    building: BTreeMap<ProductId, u64>,
}

impl Load {
    fn of(state: &FleetState) -> Self {
        let mut building = BTreeMap::new();
        let seated = state.factory_ids().flat_map(|id| state.seated(id)).filter(|job| job.value.seat().is_some());
        for job in seated {
            *building.entry(job.value.product().clone()).or_default() += 1;
        }
        let queued = state.product_ids().map(|id| (id.clone(), state.queue_version(id).1)).collect();
        Self { seats: state.factories().map(|factory| u64::from(factory.seat_limit)).sum(), queued, building }
    }
}

impl Step {
    fn record_lag(&mut self, lag_ms: u64) {
        match self.lags.len() < LAGS_MAX {
            true => self.lags.push(lag_ms),
            false => self.lags[self.lag_count % LAGS_MAX] = lag_ms,
        }
        self.lag_count += 1;
    }

    fn point(&self, products: &BTreeSet<ProductId>) -> MetricsPoint {
        let is_whole = products.is_empty();
        let own = |counts: &BTreeMap<ProductId, u64>| -> u64 {
            counts.iter().filter(|(product, _)| is_whole || products.contains(*product)).map(|(_, count)| count).sum()
        };
        let building = own(&self.load.building);
        MetricsPoint {
            at: self.at,
            queued: own(&self.load.queued),
            building,
            seats_used: building,
            seats_total: self.load.seats,
            lag_ms: quantiles(&self.lags).filter(|_| is_whole),
            // The store's operations belong to the whole fleet.
            store_ops: if is_whole { self.operations } else { StoreOperationCounts::default() },
            claims: own(&self.claims),
        }
    }
}

impl HistoryRecorder {
    /// Records how long a job that is dispatched in a step had waited.
    fn record_lag(&self, number: u128, lag_ms: u64) {
        let steps = &mut *self.steps.lock();
        match steps.open.as_mut().filter(|open| open.number == number) {
            Some(open) => open.record_lag(lag_ms),
            None if steps.ahead.len() < LAGS_MAX => steps.ahead.push(lag_ms),
            None => {}
        }
    }

    /// Records a granted lease.
    pub(crate) fn record_claim(&self, product: &ProductId) {
        if let Some(open) = &mut self.steps.lock().open {
            *open.claims.entry(product.clone()).or_default() += 1;
        }
    }
}

impl Coordinator {
    /// Begins a step if none is open now, before a change is taken into `state`.
    pub(crate) fn record_step(&self, state: &FleetState) {
        let number = self.step_number();
        let mut steps = self.metrics_history.steps.lock();
        if steps.open.as_ref().is_some_and(|open| open.number == number) {
            return;
        }
        let operations = self.operation_counts();
        if let Some(open) = steps.open.take() {
            // Nothing has changed since its last change.
            let closed = Step { operations: since(operations, open.operations), load: Load::of(state), ..open };
            steps.closed.push_back(closed);
        }
        while steps.closed.len() >= POINTS_MAX {
            steps.closed.pop_front();
        }
        let (at, load, lags) = (self.now(), Load::default(), std::mem::take(&mut steps.ahead));
        let lag_count = lags.len();
        steps.open = Some(Step { number, at, operations, lags, lag_count, claims: BTreeMap::new(), load });
    }

    /// Records how long a dispatched job had waited.
    pub(crate) fn record_lag(&self, lag_ms: u64) {
        self.metrics_history.record_lag(self.step_number(), lag_ms);
    }

    /// The metrics of the last hour, limited to the caller's products.
    pub fn metrics_history(&self, who: &Principal) -> Result<MetricsHistory, Error> {
        who.require_fleet_view()?;
        let state = self.state.lock();
        let seats_of_others = |step: &mut MetricsPoint| {
            // A past number of seats is not known by product.
            if !who.products().is_empty() {
                step.seats_total = state
                    .factories()
                    .filter(|one| self.shows_factory(who, &state, &one.id))
                    .map(|one| u64::from(one.seat_limit))
                    .sum();
            }
        };
        let steps = self.metrics_history.steps.lock();
        let operations = self.operation_counts();
        let open = steps.open.clone().map(|open| Step {
            operations: since(operations, open.operations),
            load: Load::of(&state),
            ..open
        });
        let oldest = self.step_number().saturating_sub(POINTS_MAX as u128);
        let recent = steps.closed.iter().filter(|step| step.number > oldest);
        let products = who.products();
        let mut points: Vec<_> = recent.chain(&open).map(|step| step.point(&products)).collect();
        points.iter_mut().for_each(seats_of_others);
        Ok(MetricsHistory { step_seconds: STEP.as_secs(), points })
    }

    fn step_number(&self) -> u128 {
        self.ports.clock.monotonic().as_millis() / STEP.as_millis()
    }

    /// The store's counters; no store operation.
    fn operation_counts(&self) -> StoreOperationCounts {
        let mut counts = StoreOperationCounts::default();
        for (kind, count) in self.ports.history.operations() {
            match kind {
                "transactions" | "batch" => counts.write += count,
                "read" | "range" | "query" | "feed" => counts.read += count,
                kind if kind.ends_with("_reads") => counts.read += count,
                _ => {}
            }
        }
        counts
    }
}

fn since(now: StoreOperationCounts, before: StoreOperationCounts) -> StoreOperationCounts {
    StoreOperationCounts { read: now.read.saturating_sub(before.read), write: now.write.saturating_sub(before.write) }
}

fn quantiles(lags: &[u64]) -> Option<LagQuantiles> {
    let mut sorted = lags.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    Some(LagQuantiles { p50: sorted[last / 2], p99: sorted[last * 99 / 100] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let lags: Vec<u64> = (1..=200).rev().collect();

        assert_eq!(quantiles(&[]), None);
        assert_eq!(quantiles(&[7]), Some(LagQuantiles { p50: 7, p99: 7 }));
        assert_eq!(quantiles(&lags), Some(LagQuantiles { p50: 100, p99: 198 }));
    }
}

//! Starts the factories that are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use clock::Backoff;
use domain::{Clock, FactoryId, PoolName};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use protocol::{PoolScale, ScaleResponse};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::demand_feed::LatestDemand;
use crate::starter::{FactoryExit, FactoryStarter, StartedFactory};

/// The pause after a start that failed; doubled each time up to the maximum.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// How a scaler works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScalerOptions {
    /// The pause after the first failed start.
    pub retry_first: Duration,
    /// The longest pause after failed starts.
    pub retry_max: Duration,
}

impl Default for ScalerOptions {
    fn default() -> Self {
        Self { retry_first: RETRY_FIRST, retry_max: RETRY_MAX }
    }
}

/// Starts factories until each pool has what it should have. It stops none.
pub struct Scaler {
    starter: Arc<dyn FactoryStarter>,
    clock: Arc<dyn Clock>,
    options: ScalerOptions,
    pools: BTreeMap<PoolName, PoolStarts>,
    exits: FuturesUnordered<BoxFuture<'static, (PoolName, FactoryId, FactoryExit)>>,
}

/// What was started for one pool.
struct PoolStarts {
    /// Started factories that have not ended, with the time of their start.
    running: BTreeMap<FactoryId, Duration>,
    backoff: Backoff,
    /// No start before this time.
    not_before: Duration,
}

impl Scaler {
    /// A scaler that has started nothing.
    pub fn new(starter: Arc<dyn FactoryStarter>, clock: Arc<dyn Clock>, options: ScalerOptions) -> Self {
        Self { starter, clock, options, pools: BTreeMap::new(), exits: FuturesUnordered::new() }
    }

    /// Works until `stop`, then waits until every factory that it started has ended.
    pub async fn run(mut self, mut demand: LatestDemand, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let wanted = demand.borrow_and_update().clone();
            let pause = match wanted {
                Some(wanted) => self.reconcile(&wanted).await,
                // Unknown is not zero, and no reason to start anything either.
                None => None,
            };
            let pause = async {
                match pause {
                    Some(pause) => self.clock.sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                changed = demand.changed() => if changed.is_err() { break },
                Some((pool, factory, exit)) = self.exits.next() => self.note_exit(pool, &factory, &exit),
                () = pause => {}
            };
        }
        while let Some((pool, factory, _)) = self.exits.next().await {
            info!(factory.id = %factory, pool = %pool, "Factory `{factory}` has ended");
        }
    }

    fn note_exit(&mut self, pool: PoolName, factory: &FactoryId, exit: &FactoryExit) {
        let options = self.options;
        let starts = self.pools.entry(pool).or_insert_with(|| PoolStarts::new(options));
        starts.note_exit(factory, exit, self.clock.monotonic());
    }

    /// Starts what is missing. Returns when it has to be called again although nothing changed.
    async fn reconcile(&mut self, wanted: &ScaleResponse) -> Option<Duration> {
        let mut again: Option<Duration> = None;
        for scale in &wanted.pools {
            let options = self.options;
            let starts = self.pools.entry(scale.pool.clone()).or_insert_with(|| PoolStarts::new(options));
            let pause = loop {
                let now = self.clock.monotonic();
                match starts.next_step(scale, now) {
                    Step::Rest(pause) => break pause,
                    Step::Start => match self.starter.start(&scale.pool).await {
                        Ok(StartedFactory { name, exit }) => {
                            info!(factory.id = %name, pool = %scale.pool, "Started factory `{name}` of pool `{}`", scale.pool);
                            starts.running.insert(name.clone(), now);
                            if let Some(exit) = exit {
                                let pool = scale.pool.clone();
                                self.exits.push(Box::pin(async move { (pool, name, exit.await) }));
                            }
                        }
                        Err(error) => {
                            warn!(pool = %scale.pool, %error, "Could not start a factory of pool `{}`: {error}", scale.pool);
                            starts.back_off(now);
                        }
                    },
                }
            };
            again = [again, pause].into_iter().flatten().min();
        }
        again
    }
}

/// What to do for a pool.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Start one more factory.
    Start,
    /// Nothing for now; look again after this time.
    Rest(Option<Duration>),
}

impl PoolStarts {
    fn new(options: ScalerOptions) -> Self {
        let backoff = Backoff::new(options.retry_first, options.retry_max);
        Self { running: BTreeMap::new(), backoff, not_before: Duration::ZERO }
    }

    /// Factories count while they are members, and before that while they may still join. One that does neither is lost:
    /// it is replaced, and ends by itself when it reaches the coordinator.
    fn next_step(&mut self, scale: &PoolScale, now: Duration) -> Step {
        let start_within = Duration::from_millis(scale.start_within_ms);
        let members: BTreeSet<&FactoryId> = scale.members.iter().collect();
        if self.running.keys().any(|name| members.contains(name)) {
            self.backoff.reset();
        }
        let joins_at = |started: &Duration| (*started + start_within).checked_sub(now).filter(|rest| !rest.is_zero());
        let joining: Vec<Duration> = self
            .running
            .iter()
            .filter(|(name, _)| !members.contains(name))
            .filter_map(|(_, at)| joins_at(at))
            .collect();
        let counted = members.len() + joining.len();
        let limit = (scale.max as usize).saturating_mul(2);
        let is_full = self.running.len() >= limit;
        if counted >= scale.wanted as usize || is_full {
            return Step::Rest(joining.into_iter().min());
        }
        match self.not_before.checked_sub(now).filter(|rest| !rest.is_zero()) {
            Some(rest) => Step::Rest(Some(rest)),
            None => Step::Start,
        }
    }

    fn note_exit(&mut self, factory: &FactoryId, exit: &FactoryExit, now: Duration) {
        self.running.remove(factory);
        match exit {
            FactoryExit::Left => info!(factory.id = %factory, "Factory `{factory}` has left"),
            FactoryExit::Failed(why) => {
                warn!(factory.id = %factory, "Factory `{factory}` failed: {why}");
                self.back_off(now);
            }
        }
    }

    fn back_off(&mut self, now: Duration) {
        self.not_before = now + self.backoff.next_pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(wanted: u32, members: &[&str]) -> PoolScale {
        PoolScale {
            pool: "linux".parse().unwrap(),
            wanted,
            live: 0,
            starting: 0,
            since: None,
            overdue: false,
            waiting: 0,
            used: 0,
            max: 3,
            start_within_ms: 60_000,
            members: members.iter().map(|name| name.parse().unwrap()).collect(),
        }
    }

    fn starts(running: &[(&str, u64)]) -> PoolStarts {
        let mut starts = PoolStarts::new(ScalerOptions::default());
        starts.running = running.iter().map(|(name, at)| (name.parse().unwrap(), Duration::from_secs(*at))).collect();
        starts
    }

    fn step(running: &[(&str, u64)], scale: &PoolScale) -> Step {
        starts(running).next_step(scale, Duration::from_secs(100))
    }

    // [F9]
    #[test]
    fn factories_that_are_joining_are_not_started_twice() {
        let rest = |seconds| Step::Rest(Some(Duration::from_secs(seconds)));

        assert_eq!(step(&[], &scale(0, &[])), Step::Rest(None));
        assert_eq!(step(&[], &scale(1, &[])), Step::Start);
        assert_eq!(step(&[("linux-1", 90)], &scale(1, &[])), rest(50), "it may still join");
        assert_eq!(step(&[("linux-1", 90)], &scale(2, &[])), Step::Start);
        assert_eq!(step(&[("linux-1", 90)], &scale(1, &["linux-1"])), Step::Rest(None));
        assert_eq!(step(&[], &scale(1, &["linux-9"])), Step::Rest(None), "another scaler started it");
        assert_eq!(step(&[("linux-1", 10)], &scale(1, &[])), Step::Start, "it did not join in time");
        assert_eq!(step(&[("linux-1", 10)], &scale(0, &[])), Step::Rest(None), "none is ever stopped");
    }

    // [F9]
    #[test]
    fn lost_factories_are_not_replaced_without_limit() {
        let lost = [("linux-1", 1), ("linux-2", 1), ("linux-3", 1), ("linux-4", 1), ("linux-5", 1), ("linux-6", 1)];

        assert_eq!(step(&lost, &scale(3, &[])), Step::Rest(None));
    }

    // [F9]
    #[test]
    fn failing_starts_are_retried_with_growing_pauses() {
        let mut starts = starts(&[("linux-1", 99), ("linux-2", 99)]);
        let now = Duration::from_secs(100);
        let failed = FactoryExit::Failed("exit status: 1".to_owned());

        starts.note_exit(&"linux-1".parse().unwrap(), &failed, now);
        let first = starts.next_step(&scale(2, &[]), now);
        starts.note_exit(&"linux-2".parse().unwrap(), &failed, now);
        let second = starts.next_step(&scale(2, &[]), now);

        let (Step::Rest(Some(first)), Step::Rest(Some(second))) = (first, second) else {
            panic!("no pause after a failed start")
        };
        assert!(second > first, "{first:?}, then {second:?}");
        assert_eq!(starts.next_step(&scale(2, &[]), now + second), Step::Start);
    }
}

//! The time of one scheduling decision [P5].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use domain::{Clock, DispatchModes, Factory, FactoryId, InstanceId, JobId, Priority, ProductId, Shape, Timestamp};
use scheduler::{FactoryState, Fleet, FleetView, Pools, Presence, Queue, Seat, WaitingJob, Weights, plan};
use serde::Serialize;

use crate::statistics::{Samples, rounded};
use crate::target::BenchSite;
use crate::{Error, Progress};

/// Fleets that are decided for.
const FACTORIES: [u32; 3] = [10, 1_000, 10_000];

/// How many factories can run a job that requires a rare capability.
const RARE: u32 = 10;

/// What only [`RARE`] factories offer.
const RARE_TOKEN: &str = "gpu:l4";

/// Rounds of which the median counts: a noisy moment spoils one of them.
const ROUNDS: u32 = 5;

/// Decisions of a round, each timed individually.
const DECISIONS: u32 = 1_000;

/// Seats of a factory; half of all are taken while decisions are made.
const SEATS: u32 = 4;

/// The headings of the table.
const HEADINGS: &[&str] = &["FACTORIES", "ELIGIBLE", "µs/DECISION", "P99 µs"];

#[derive(Serialize)]
struct Report {
    bench: &'static str,
    rounds: u32,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    factories: u32,
    eligible: u32,
    us_per_decision: f64,
    us_per_decision_p99: f64,
}

/// Measures the scheduler alone, in this process.
pub(crate) fn run(progress: Progress<'_>, site: &BenchSite) -> Result<crate::Report, Error> {
    if let BenchSite::There(_) = site {
        return Err(Error::usage(
            "this benchmark measures the scheduler alone, without a coordinator: leave --api away",
        ));
    }
    let mut rows = Vec::new();
    for factories in FACTORIES {
        for eligible in [factories, RARE.min(factories)] {
            progress.note(&format!("{factories} factories, of which {eligible} can run the job"));
            rows.push(measure(factories, eligible)?);
        }
    }
    rows.dedup_by_key(|row| (row.factories, row.eligible));
    let report = Report { bench: "decide", rounds: ROUNDS, rows };
    let mut table: Vec<Vec<String>> = Vec::new();
    for row in &report.rows {
        table.push(vec![
            row.factories.to_string(),
            row.eligible.to_string(),
            format!("{:.2}", row.us_per_decision),
            format!("{:.2}", row.us_per_decision_p99),
        ]);
    }
    crate::Report::new(&report, HEADINGS, table)
}

fn measure(factories: u32, eligible: u32) -> Result<Row, Error> {
    let clock = SystemClock::new();
    let mut world = SimulatedFleet::new(factories, eligible, clock.now())?;
    // Before the first that counts, so many that half of the seats which the jobs can take are taken.
    for _ in 0..eligible * SEATS / 2 {
        world.decide()?;
    }
    let (mut means, mut worst) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        let mut samples = Samples::default();
        let started = clock.monotonic();
        for _ in 0..DECISIONS {
            let began = clock.monotonic();
            world.decide()?;
            samples.add(clock.monotonic().saturating_sub(began));
        }
        means.add(clock.monotonic().saturating_sub(started) / DECISIONS);
        worst.add(samples.percentile(99.0));
    }
    let micros = |span: Duration| rounded(span.as_secs_f64() * 1e6, 2);
    Ok(Row {
        factories,
        eligible,
        us_per_decision: micros(means.median()),
        us_per_decision_p99: micros(worst.median()),
    })
}

/// A fleet in use: each decision takes a seat, and the oldest one comes free.
struct SimulatedFleet {
    fleet: Fleet,
    shape: Arc<Shape>,
    seated: VecDeque<JobId>,
    seats_max: usize,
    jobs: u64,
    now: Timestamp,
}

impl SimulatedFleet {
    fn new(factories: u32, eligible: u32, now: Timestamp) -> Result<Self, Error> {
        let mut fleet = Fleet::new();
        for n in 0..factories {
            fleet.upsert(factory(n, n * eligible / factories != (n + 1) * eligible / factories, now)?);
        }
        let wanted = if eligible == factories { "engine:claude" } else { RARE_TOKEN };
        let shape = Shape {
            product: ProductId::default_product(),
            repo: Some(named("repo-7")?),
            capabilities: vec![named(wanted)?],
            engines: Vec::new(),
            pin: None,
            identity: None,
        };
        let seats_max = usize::try_from(eligible * SEATS / 2).unwrap_or(usize::MAX);
        Ok(Self { fleet, shape: Arc::new(shape), seated: VecDeque::new(), seats_max, jobs: 0, now })
    }

    /// Decides for one job, and gives it its seat.
    fn decide(&mut self) -> Result<(), Error> {
        let (weights, products, out_of_money) = (Weights::default(), BTreeMap::new(), BTreeMap::new());
        let (flags, pools) = (DispatchModes::default(), Pools::default());
        self.jobs += 1;
        let job = JobId::from_bytes((u128::from(self.jobs) << 64).to_be_bytes());
        let mut queue = Queue::new();
        let (shape, since) = (Arc::clone(&self.shape), self.now);
        queue.insert(WaitingJob { job, shape, priority: Priority::Normal, since, avoid: None });
        let view = FleetView {
            now: self.now,
            fleet: &self.fleet,
            queue: &queue,
            products: &products,
            out_of_money: &out_of_money,
            weights: &weights,
            flags: &flags,
            pools: &pools,
            limit: 1,
        };
        let decided = plan(&view).placements.pop();
        let placement = decided.ok_or_else(|| Error::failed("a job found no seat, which there was"))?;
        let seat = Seat {
            factory: placement.factory,
            product: self.shape.product.clone(),
            repo: self.shape.repo.clone(),
            engine: placement.engine,
        };
        self.fleet.occupy(job, seat);
        self.seated.push_back(job);
        if self.seated.len() > self.seats_max
            && let Some(oldest) = self.seated.pop_front()
        {
            self.fleet.vacate(&oldest);
        }
        Ok(())
    }
}

/// Factories differ as those of a real fleet do: in system, tools, engines, repositories, load, cost and health.
fn factory(n: u32, has_rare: bool, now: Timestamp) -> Result<FactoryState, Error> {
    let pick = |of: &[&'static str], by: u32| of[(n / by) as usize % of.len()];
    let mut tokens = vec![pick(&["os:linux", "os:mac", "os:windows"], 1), "engine:claude"];
    tokens.push(pick(&["node:18", "node:20", "node:22"], 3));
    tokens.extend(["has:docker"].iter().filter(|_| n.is_multiple_of(2)));
    tokens.extend(["engine:codex"].iter().filter(|_| n % 5 < 2));
    tokens.extend([RARE_TOKEN].iter().filter(|_| has_rare));
    let factory = Factory {
        id: named::<FactoryId>(&format!("factory-{n:05}"))?,
        instance: InstanceId::from_bytes([0; 16]),
        capabilities: tokens.into_iter().map(named).collect::<Result<BTreeSet<_>, _>>()?,
        repos: (0..3).map(|i| named(&format!("repo-{}", (n * 7 + i * 13) % 40))).collect::<Result<_, _>>()?,
        clones: true,
        seat_limit: SEATS,
        engine_seats: BTreeMap::new(),
        repo_seats: BTreeMap::new(),
        engine_health: Vec::new(),
        cost: u8::try_from(n % 4 * 10).unwrap_or(0),
        draining: false,
        version: String::new(),
        joined_at: now,
        unavailable_repos: BTreeMap::new(),
        repo_identities: BTreeMap::new(),
        resumed_windows: BTreeMap::new(),
        pool: None,
    };
    let load = f64::from(n * 37 % 50) / 100.0;
    let health = if n.is_multiple_of(10) { 0.9 } else { 1.0 };
    let (products, resting) = (BTreeSet::new(), BTreeMap::new());
    Ok(FactoryState {
        factory,
        products,
        presence: Presence::Live,
        load,
        health,
        disk_low: false,
        unresponsive: None,
        resting,
    })
}

fn named<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Error> {
    text.parse().map_err(|error| Error::failed(format!("{error}")))
}

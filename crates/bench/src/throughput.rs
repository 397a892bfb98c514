//! Whole lives of jobs per second, submit to shipped, every step durable and seen by a watcher [P2].

use std::time::Duration;

use domain::ProductId;
use serde::Serialize;

use crate::statistics::rounded;
use crate::target::{BenchSite, BenchTarget};
use crate::watcher::Watcher;
use crate::worker_pool::WorkerPool;
use crate::workload;
use crate::{Error, Progress, ThroughputOptions};

/// Callers that submit batches.
const BATCHERS: u64 = 4;
const BATCH: u64 = 100;

/// Lives before the clock starts: connections, caches and memory are then as they stay.
const WARM_UP: u64 = 1_000;

/// Each life is seen as this many events at least: submitted, dispatched, granted, started, completed, shipped.
const EVENTS_PER_LIFE: u64 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Workload {
    Single,
    Batched,
}

/// The headings of the table.
const HEADINGS: &[&str] = &["OPERATIONS", "BUDGETS", "LIVES/S", "EVENTS/S", "COORDINATOR µs/LIFE", "CLIENTS µs/LIFE"];

#[derive(Serialize)]
struct Report {
    bench: &'static str,
    lives: u64,
    single_lives_per_s: f64,
    batched_lives_per_s: f64,
    single: Measurement,
    batched: Measurement,
    /// The same with budgets enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    with_budgets: Option<WithBudgets>,
}

#[derive(Clone, Copy, Serialize)]
struct WithBudgets {
    single: Measurement,
    batched: Measurement,
    /// Lives per second with budgets, divided by those without.
    single_ratio: f64,
    batched_ratio: f64,
}

/// One measurement, with where the processor's time went.
#[derive(Clone, Copy, Serialize)]
struct Measurement {
    lives_per_s: f64,
    events_per_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    coordinator_us_per_life: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clients_us_per_life: Option<f64>,
}

/// Measures lives per second, one operation per request and batched.
pub(crate) async fn run(
    progress: Progress<'_>,
    site: &BenchSite,
    args: &ThroughputOptions,
) -> Result<crate::Report, Error> {
    if args.budgets {
        site.require_own("--budgets")?;
    }
    let single = measure(progress, site, Workload::Single, args, false).await?;
    let batched = measure(progress, site, Workload::Batched, args, false).await?;
    let mut measured = vec![("one per request", "off", single), ("batched", "off", batched)];
    let mut with_budgets = None;
    if args.budgets {
        let with_single = measure(progress, site, Workload::Single, args, true).await?;
        let with_batched = measure(progress, site, Workload::Batched, args, true).await?;
        measured.extend([("one per request", "on", with_single), ("batched", "on", with_batched)]);
        with_budgets = Some(WithBudgets {
            single: with_single,
            batched: with_batched,
            single_ratio: rounded(with_single.lives_per_s / single.lives_per_s, 3),
            batched_ratio: rounded(with_batched.lives_per_s / batched.lives_per_s, 3),
        });
    }
    let report = Report {
        bench: "throughput",
        lives: args.lives,
        single_lives_per_s: single.lives_per_s,
        batched_lives_per_s: batched.lives_per_s,
        single,
        batched,
        with_budgets,
    };
    let mut table: Vec<Vec<String>> = Vec::new();
    for (name, budgets, measured) in measured {
        let micros = |value: Option<f64>| value.map_or_else(String::new, |micros| format!("{micros:.0}"));
        table.push(vec![
            name.to_owned(),
            budgets.to_owned(),
            format!("{:.0}", measured.lives_per_s),
            format!("{:.0}", measured.events_per_s),
            micros(measured.coordinator_us_per_life),
            micros(measured.clients_us_per_life),
        ]);
    }
    crate::Report::new(&report, HEADINGS, table)
}

async fn measure(
    progress: Progress<'_>,
    site: &BenchSite,
    manner: Workload,
    args: &ThroughputOptions,
    budgets: bool,
) -> Result<Measurement, Error> {
    let count = args.lives;
    let mut ground = site.open().await?;
    let product = ground.product().await?;
    if budgets {
        ground.enforce_budget(&product).await?;
    }
    let size = (args.factories, args.seats);
    let mut crew = match manner {
        Workload::Single => WorkerPool::hire(&ground, &product, size, workload::live_singly).await?,
        Workload::Batched => WorkerPool::hire(&ground, &product, size, workload::live_in_batches).await?,
    };
    let mut watcher = Watcher::open(ground.admin(), &product).await?;
    progress.note(&format!("{manner:?}: {WARM_UP} lives to warm up, then {count} that count").to_lowercase());
    crew.during(live(&ground, &product, manner, (WARM_UP, args.submitters), &mut watcher)).await?;
    let (events, started, cpu) = (watcher.events(), ground.clock.monotonic(), CpuTime::now(&ground));
    crew.during(live(&ground, &product, manner, (count, args.submitters), &mut watcher)).await?;
    let took = ground.clock.monotonic().saturating_sub(started).as_secs_f64();
    let (used, events) = (CpuTime::now(&ground), watcher.events() - events);
    drop(crew);
    ground.stop().await?;
    if events < count * EVENTS_PER_LIFE {
        return Err(Error::failed(format!("{count} lives were seen as {events} events only")));
    }
    let per_life = |before: Option<Duration>, after: Option<Duration>| {
        Some(rounded(after?.saturating_sub(before?).as_secs_f64() * 1e6 / count as f64, 1))
    };
    Ok(Measurement {
        lives_per_s: rounded(count as f64 / took, 1),
        events_per_s: rounded(events as f64 / took, 1),
        coordinator_us_per_life: per_life(cpu.coordinator, used.coordinator),
        clients_us_per_life: per_life(cpu.clients, used.clients),
    })
}

/// Processor time used so far.
struct CpuTime {
    coordinator: Option<Duration>,
    clients: Option<Duration>,
}

impl CpuTime {
    fn now(ground: &BenchTarget) -> Self {
        Self { coordinator: ground.cpu_time(), clients: crate::process::cpu_time(std::process::id()) }
    }
}

/// Submits jobs and waits until the watcher has seen all of them end.
async fn live(
    ground: &BenchTarget,
    product: &ProductId,
    manner: Workload,
    (count, submitters): (u64, u64),
    watcher: &mut Watcher,
) -> Result<(), Error> {
    let goal = watcher.shipped() + count;
    match manner {
        Workload::Single => workload::submit_singly(ground.admin(), product, count, submitters).await?,
        Workload::Batched => workload::submit_in_batches(ground.admin(), product, count, BATCHERS, BATCH).await?,
    }
    watcher.wait_for(goal).await
}

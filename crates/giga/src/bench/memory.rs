//! Memory and start-up time with many jobs [P6].

use std::time::Duration;

use clock::SystemClock;
use domain::{Clock, ProductId};
use serde::Serialize;

use crate::cli::BenchMemoryArgs;
use crate::command::Context;
use crate::failure::Failure;
use crate::output::Table;

use super::process;
use super::seed::{SeedStage, seed};
use super::statistics::{Samples, millis, rounded};
use super::target::{BenchSite, BenchTarget, ScratchStore};

/// Starts of which the median counts.
const STARTS: u32 = 3;

/// How long a coordinator is left alone before its memory is read.
const SETTLE: Duration = Duration::from_secs(3);

#[derive(Serialize)]
struct Report {
    bench: &'static str,
    stored: u64,
    /// Open jobs when the memory was read.
    open: u64,
    rss_mb: f64,
    start_ms: f64,
    /// Open jobs when the start was timed.
    start_open: u64,
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Serialize)]
struct Row {
    stored: u64,
    open: u64,
    rss_mb: f64,
    start_ms: f64,
}

/// Measures coordinators of our own: another one cannot be stopped and started.
pub(super) async fn run(context: &Context<'_>, site: &BenchSite, args: &BenchMemoryArgs) -> Result<(), Failure> {
    let mut plot = site.plot("memory").await?;
    let product = ProductId::default_product();
    let (stored, mut open) = (args.stored, 0);
    context.out.note(&format!("storing {stored} jobs that are over"));
    write(context, &plot, &product, (0, stored), SeedStage::Over).await?;
    let mut rows = Vec::new();
    for wanted in [args.open, args.resident.max(args.open)] {
        context.out.note(&format!("storing {} jobs that wait", wanted - open));
        write(context, &plot, &product, (stored + open, wanted - open), SeedStage::Open).await?;
        open = wanted;
        let (row, back) = measure(plot, stored, open).await?;
        plot = back;
        rows.push(row);
    }
    let (first, last) = (rows[0], rows[1]);
    let report = Report {
        bench: "memory",
        stored,
        open: last.open,
        rss_mb: last.rss_mb,
        start_ms: first.start_ms,
        start_open: first.open,
        rows,
    };
    if context.out.is_json() {
        return context.out.document(&report);
    }
    let mut table = Table::new(&["STORED", "OPEN", "START ms", "RESIDENT MB"], "STORED");
    for row in &report.rows {
        table.row(vec![
            row.stored.to_string().into(),
            row.open.to_string().into(),
            format!("{:.0}", row.start_ms).into(),
            format!("{:.0}", row.rss_mb).into(),
        ]);
    }
    context.out.whole_table(&table)
}

async fn write(
    context: &Context<'_>,
    plot: &ScratchStore,
    product: &ProductId,
    (from, count): (u64, u64),
    fate: SeedStage,
) -> Result<(), Failure> {
    let store = plot.open_store().await?;
    seed(context, &store.jobs, product, from, count, fate).await?;
    store.lifecycle.close().await.map_err(|error| Failure::failed(error.to_string()))
}

/// Starts a coordinator on the plot, several times; its memory is read after the last.
async fn measure(mut plot: ScratchStore, stored: u64, open: u64) -> Result<(Row, ScratchStore), Failure> {
    let clock = SystemClock::new();
    let (mut starts, mut rss_mb) = (Samples::default(), 0.0);
    for n in 1..=STARTS {
        let started = clock.monotonic();
        let ground = BenchTarget::start(plot).await?;
        ground.is_ready().await?;
        starts.add(clock.monotonic().saturating_sub(started));
        if n == STARTS {
            clock.sleep(SETTLE).await;
            let resident = ground.pid().and_then(process::resident_mb);
            rss_mb =
                resident.ok_or_else(|| Failure::failed("this system does not say how much memory a process has"))?;
        }
        plot = ground.stop().await?.ok_or_else(|| Failure::failed("the coordinator is not ours"))?;
    }
    let row = Row { stored, open, rss_mb: rounded(rss_mb, 1), start_ms: millis(starts.median()) };
    Ok((row, plot))
}

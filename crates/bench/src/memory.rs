//! Memory and start-up time with many jobs [P6].

use std::time::Duration;

use clock::SystemClock;
use domain::{Clock, ProductId};
use serde::Serialize;

use crate::process;
use crate::seed::{SeedStage, seed};
use crate::statistics::{Samples, millis, rounded};
use crate::target::{BenchSite, BenchTarget, ScratchStore};
use crate::{Error, MemoryOptions, Progress};

/// Starts of which the median counts.
const STARTS: u32 = 3;

/// How long a coordinator is left alone before its memory is read.
const SETTLE: Duration = Duration::from_secs(3);

/// The headings of the table.
const HEADINGS: &[&str] = &["STORED", "OPEN", "START ms", "RESIDENT MB"];

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
pub(crate) async fn run(
    progress: Progress<'_>,
    site: &BenchSite,
    args: &MemoryOptions,
) -> Result<crate::Report, Error> {
    let mut plot = site.plot("memory").await?;
    let product = ProductId::default_product();
    let (stored, mut open) = (args.stored, 0);
    progress.note(&format!("storing {stored} jobs that are over"));
    write(progress, &plot, &product, (0, stored), SeedStage::Over).await?;
    let mut rows = Vec::new();
    for wanted in [args.open, args.resident.max(args.open)] {
        progress.note(&format!("storing {} jobs that wait", wanted - open));
        write(progress, &plot, &product, (stored + open, wanted - open), SeedStage::Open).await?;
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
    let mut table: Vec<Vec<String>> = Vec::new();
    for row in &report.rows {
        table.push(vec![
            row.stored.to_string(),
            row.open.to_string(),
            format!("{:.0}", row.start_ms),
            format!("{:.0}", row.rss_mb),
        ]);
    }
    crate::Report::new(&report, HEADINGS, table)
}

async fn write(
    progress: Progress<'_>,
    plot: &ScratchStore,
    product: &ProductId,
    (from, count): (u64, u64),
    fate: SeedStage,
) -> Result<(), Error> {
    let store = plot.open_store().await?;
    seed(progress, &store.jobs, product, from, count, fate).await?;
    store.lifecycle.close().await.map_err(|error| Error::failed(error.to_string()))
}

/// Starts a coordinator on the plot, several times; its memory is read after the last.
async fn measure(mut plot: ScratchStore, stored: u64, open: u64) -> Result<(Row, ScratchStore), Error> {
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
            rss_mb = resident.ok_or_else(|| Error::failed("this system does not say how much memory a process has"))?;
        }
        plot = ground.stop().await?.ok_or_else(|| Error::failed("the coordinator is not ours"))?;
    }
    let row = Row { stored, open, rss_mb: rounded(rss_mb, 1), start_ms: millis(starts.median()) };
    Ok((row, plot))
}

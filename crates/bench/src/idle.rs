//! What idle factories cost in each dispatch mode: store operations, claims, processor time [P4].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::SystemEntropy;
use domain::{Clock, Entropy, Mode, ProductId};
use factory::{PollBackoff, PollResult, PollTrigger};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::fake_worker::FakeWorker;
use crate::process;
use crate::statistics::rounded;
use crate::target::{BenchSite, BenchTarget};
use crate::{Error, IdleOptions, Progress};

/// The modes, in the order of the table.
const MODES: [Mode; 3] = [Mode::Poll, Mode::Gate, Mode::Push];

/// The interval at which factories poll, in the modes with polling.
const POLL_EVERY: Duration = Duration::from_secs(3);

/// The pause between the last factory's start and the first reading: they have opened their streams and polled once.
const SETTLE: Duration = Duration::from_secs(4);

/// The headings of the table.
const HEADINGS: &[&str] = &[
    "MODE",
    "FACTORIES",
    "STORE OPS/MIN",
    "STORE OPS/DAY",
    "LEADERSHIP/DAY",
    "CLAIMS/MIN",
    "LOOKS/MIN",
    "CPU %",
    "RESIDENT MB",
];

const MINUTES_PER_DAY: f64 = 24.0 * 60.0;

#[derive(Serialize)]
struct Report {
    bench: &'static str,
    poll_every_s: u64,
    seconds: u32,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    mode: &'static str,
    factories: u32,
    store_ops_per_min: f64,
    /// At the measured rate.
    store_ops_per_day: f64,
    /// Proofs of the leadership, which several coordinators need, at the measured rate.
    leadership_ops_per_day: f64,
    /// Unknown where the coordinator is not ours.
    cpu_percent: Option<f64>,
    claims_per_min: f64,
    looks_per_min: f64,
    rss_mb: Option<f64>,
}

/// The requests of the factories so far.
#[derive(Default)]
struct RequestCounts {
    claims: AtomicU64,
    looks: AtomicU64,
}

/// Measures a fleet with nothing to do, mode by mode.
pub(crate) async fn run(progress: Progress<'_>, site: &BenchSite, args: &IdleOptions) -> Result<crate::Report, Error> {
    let ground = site.open().await?;
    let product = ground.product().await?;
    let mut sizes = args.factories.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let (mut hands, mut rows) = (Vec::new(), Vec::new());
    for factories in sizes {
        progress.note(&format!("{factories} factories join"));
        for n in hands.len()..factories as usize {
            hands.push(ground.hire(&product, n, 1).await?);
        }
        for mode in MODES {
            progress.note(&format!("{factories} idle factories in mode {mode}, for {} seconds", args.seconds));
            rows.push(measure(&ground, &hands, &product, mode, args.seconds).await?);
        }
    }
    ground.stop().await?;
    let report = Report { bench: "idle", poll_every_s: POLL_EVERY.as_secs(), seconds: args.seconds, rows };
    let mut table: Vec<Vec<String>> = Vec::new();
    for row in &report.rows {
        table.push(vec![
            row.mode.to_owned(),
            row.factories.to_string(),
            format!("{:.1}", row.store_ops_per_min),
            format!("{:.0}", row.store_ops_per_day),
            format!("{:.0}", row.leadership_ops_per_day),
            format!("{:.1}", row.claims_per_min),
            format!("{:.1}", row.looks_per_min),
            row.cpu_percent.map_or_else(String::new, |percent| format!("{percent:.2}")),
            row.rss_mb.map_or_else(String::new, |mb| format!("{mb:.0}")),
        ]);
    }
    crate::Report::new(&report, HEADINGS, table)
}

async fn measure(
    ground: &BenchTarget,
    hands: &[FakeWorker],
    product: &ProductId,
    mode: Mode,
    seconds: u32,
) -> Result<Row, Error> {
    ground.admin().set_mode(Some(product), Some(mode)).await?;
    let asked: Arc<RequestCounts> = Arc::default();
    let mut idling = JoinSet::new();
    for hand in hands {
        idling.spawn(idle(hand.clone(), product.clone(), mode, Arc::clone(&ground.clock), Arc::clone(&asked)));
    }
    ground.clock.sleep(SETTLE).await;
    // Reading the counter costs operations of its own: they are measured first.
    let (before, again) = (ground.store_operations().await?, ground.store_operations().await?);
    let cost_of_asking = again.work - before.work;
    let (cpu, started) = (ground.cpu_time(), ground.clock.monotonic());
    let (claims, looks) = (asked.claims.load(Ordering::Relaxed), asked.looks.load(Ordering::Relaxed));
    ground.clock.sleep(Duration::from_secs(u64::from(seconds))).await;
    let took = ground.clock.monotonic().saturating_sub(started).as_secs_f64();
    let used = ground.cpu_time().zip(cpu).map(|(after, before)| after.saturating_sub(before));
    let per_minute = |count: u64| rounded(count as f64 * 60.0 / took, 1);
    let claims = asked.claims.load(Ordering::Relaxed) - claims;
    let looks = asked.looks.load(Ordering::Relaxed) - looks;
    let after = ground.store_operations().await?;
    let operations = (after.work - again.work).saturating_sub(cost_of_asking);
    let leadership = after.leadership - again.leadership;
    if let Some(ended) = idling.try_join_next() {
        ended.map_err(|error| Error::failed(error.to_string()))??;
        return Err(Error::failed("a factory's stream ended in the middle of the benchmark"));
    }
    Ok(Row {
        mode: mode.as_str(),
        factories: u32::try_from(hands.len()).unwrap_or(u32::MAX),
        store_ops_per_min: per_minute(operations),
        store_ops_per_day: per_minute(operations) * MINUTES_PER_DAY,
        leadership_ops_per_day: per_minute(leadership) * MINUTES_PER_DAY,
        cpu_percent: used.map(|used| rounded(used.as_secs_f64() * 100.0 / took, 2)),
        claims_per_min: per_minute(claims),
        looks_per_min: per_minute(looks),
        rss_mb: ground.pid().and_then(process::resident_mb).map(|mb| rounded(mb, 1)),
    })
}

/// One factory with nothing to do: its stream is open, it sends heartbeats, and it polls as its mode requires.
async fn idle(
    hand: FakeWorker,
    product: ProductId,
    mode: Mode,
    clock: Arc<dyn Clock>,
    asked: Arc<RequestCounts>,
) -> Result<(), Error> {
    let renew_every = Duration::from_millis(hand.beat().await?.renew_every_ms);
    let mut inbox = hand.inbox().await?;
    let beat = async {
        loop {
            clock.sleep(renew_every).await;
            hand.beat().await?;
        }
    };
    let ask = async {
        match mode {
            Mode::Poll | Mode::Gate => ask_for_ever(&hand, &product, mode, clock.as_ref(), &asked).await,
            Mode::Push | Mode::Shadow | Mode::SelfSelect => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = inbox.next() => ended.map(|_| ()),
        failed = beat => failed,
        failed = ask => failed,
    }
}

/// Polls for work as a real factory does.
async fn ask_for_ever(
    hand: &FakeWorker,
    product: &ProductId,
    mode: Mode,
    clock: &dyn Clock,
    asked: &RequestCounts,
) -> Result<(), Error> {
    let entropy: &dyn Entropy = &SystemEntropy;
    let mut pace = PollBackoff::new(POLL_EVERY);
    let mut pause = pace.first(entropy.fraction());
    loop {
        clock.sleep(pause).await;
        let is_open = match mode {
            Mode::Gate => {
                asked.looks.fetch_add(1, Ordering::Relaxed);
                pace.opens(
                    hand.client.queue_state(std::slice::from_ref(product), pace.tag()).await?,
                    PollTrigger::ByTime,
                )
            }
            _ => true,
        };
        let found = if is_open {
            asked.claims.fetch_add(1, Ordering::Relaxed);
            let claimed = hand.claim(1).await?;
            if claimed.granted.is_empty() { PollResult::Nothing } else { PollResult::Work }
        } else {
            PollResult::Closed
        };
        pause = pace.after(found, entropy.fraction());
    }
}

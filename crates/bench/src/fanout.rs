//! Many clients of the event stream while the fleet works: every event reaches each of them, and the API stays fast [P7].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use client::{Client, Endpoint, EventStream, Trust};
use domain::{ProductId, TokenScope};
use protocol::{CreateTokenRequest, CreateTokenResponse, JobList, SubmitResponse};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::statistics::{Samples, millis, rounded};
use crate::target::{BenchSite, BenchTarget};
use crate::watcher::Watcher;
use crate::worker_pool::WorkerPool;
use crate::{Error, FanoutOptions, Progress, process, workload};

/// Streams per token: a coordinator limits them.
const STREAMS_PER_TOKEN: usize = 200;

/// Tokens that a killed benchmark leaves behind on a coordinator that is not ours expire after this.
const TOKEN_TTL_SECONDS: u64 = 3_600;

/// Streams that are opened at once.
const OPENING_MAX: usize = 64;

/// How often the API is read.
const READ_EVERY: Duration = Duration::from_millis(50);

/// How long the last events may take to reach every client.
const CATCH_UP_MAX: Duration = Duration::from_secs(60);

/// The factories that do the work.
const FACTORIES: (u32, u32) = (2, 32);

const HEADINGS: &[&str] = &[
    "CLIENTS",
    "JOBS/S",
    "FRAMES/S",
    "GAPS",
    "BEHIND",
    "GET P50 MS",
    "GET P99 MS",
    "GET MAX MS",
    "CPU %",
    "MEMORY MB",
];

#[derive(Serialize)]
struct Report {
    bench: &'static str,
    clients: usize,
    rate: u32,
    seconds: f64,
    frames: u64,
    frames_per_s: f64,
    /// Clients that missed an event, or were reset.
    gaps: u64,
    /// Clients that had not received the last event after a minute.
    behind: u64,
    get_p50_ms: f64,
    get_p99_ms: f64,
    get_max_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    coordinator_cpu_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    coordinator_mb: Option<f64>,
}

/// Measures the fan-out of events.
pub(crate) async fn run(
    progress: Progress<'_>,
    site: &BenchSite,
    args: &FanoutOptions,
) -> Result<crate::Report, Error> {
    let ground = site.open().await?;
    let tokens = tokens(&ground, args.clients).await?;
    let measured = measure(progress, &ground, &tokens, args).await;
    for token in &tokens {
        let path = format!("/tokens/{}", token.token.id);
        let _: Result<serde_json::Value, _> = ground.admin().call(http::Method::DELETE, &path, None::<&()>).await;
    }
    ground.stop().await?;
    let report = measured?;
    let optional = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.0}"));
    let row = vec![
        report.clients.to_string(),
        report.rate.to_string(),
        format!("{:.0}", report.frames_per_s),
        report.gaps.to_string(),
        report.behind.to_string(),
        format!("{:.1}", report.get_p50_ms),
        format!("{:.1}", report.get_p99_ms),
        format!("{:.1}", report.get_max_ms),
        optional(report.coordinator_cpu_percent),
        optional(report.coordinator_mb),
    ];
    crate::Report::new(&report, HEADINGS, vec![row])
}

/// A token for each group of clients.
async fn tokens(ground: &BenchTarget, clients: usize) -> Result<Vec<CreateTokenResponse>, Error> {
    let mut tokens = Vec::new();
    for n in 0..clients.div_ceil(STREAMS_PER_TOKEN) {
        let request = CreateTokenRequest {
            name: format!("bench watcher {n}"),
            grant: TokenScope::Viewer { products: std::collections::BTreeSet::new() },
            ttl_seconds: Some(TOKEN_TTL_SECONDS),
            owner: None,
            forge_login: None,
        };
        tokens.push(ground.admin().post("/tokens", &request).await?);
    }
    Ok(tokens)
}

async fn measure(
    progress: Progress<'_>,
    ground: &BenchTarget,
    tokens: &[CreateTokenResponse],
    args: &FanoutOptions,
) -> Result<Report, Error> {
    let product = ground.product().await?;
    let mut crew = WorkerPool::hire(ground, &product, FACTORIES, workload::live_singly).await?;
    let mut watcher = Watcher::open(ground.admin(), &product).await?;
    progress.note(&format!("opening {} event streams", args.clients));
    let audience = Audience::open(ground, tokens, args.clients).await?;
    progress.note(&format!("{} jobs/s for {} seconds", args.rate, args.seconds));
    let (started, cpu) = (ground.clock.monotonic(), ground.cpu_time());
    let jobs = u64::from(args.rate) * u64::from(args.seconds);
    let is_over = AtomicBool::new(false);
    let working = async {
        let worked = work(ground, &product, args).await;
        let ended = match worked {
            Ok(()) => watcher.wait_for(jobs).await,
            Err(error) => Err(error),
        };
        is_over.store(true, Ordering::Relaxed);
        ended
    };
    let (ended, reads) = tokio::join!(crew.during(working), read_api(ground, &is_over));
    ended?;
    let (took, used) = (ground.clock.monotonic().saturating_sub(started), ground.cpu_time());
    let last = position_of(&mut ground.admin().events("/events/stream", None).await?).await?;
    let behind = audience.wait_for(ground, last).await;
    let reads = reads?;
    let frames = audience.frames();
    let cpu = cpu.zip(used).map(|(before, after)| after.saturating_sub(before).as_secs_f64() / took.as_secs_f64());
    Ok(Report {
        bench: "fanout",
        clients: args.clients,
        rate: args.rate,
        seconds: rounded(took.as_secs_f64(), 1),
        frames,
        frames_per_s: rounded(frames as f64 / took.as_secs_f64(), 0),
        gaps: audience.gaps(),
        behind,
        get_p50_ms: millis(reads.median()),
        get_p99_ms: millis(reads.percentile(99.0)),
        get_max_ms: millis(reads.percentile(100.0)),
        coordinator_cpu_percent: cpu.map(|share| rounded(share * 100.0, 1)),
        coordinator_mb: ground.pid().and_then(process::resident_mb).map(|mb| rounded(mb, 1)),
    })
}

/// Submits jobs at the rate.
async fn work(ground: &BenchTarget, product: &ProductId, args: &FanoutOptions) -> Result<(), Error> {
    let every = Duration::from_secs(1) / args.rate.max(1);
    let started = ground.clock.monotonic();
    for n in 0..args.rate * args.seconds {
        let wait = (started + every * n).saturating_sub(ground.clock.monotonic());
        ground.clock.sleep(wait).await;
        let request = workload::submit(product, n.into());
        let _: SubmitResponse = ground.admin().post("/jobs", &request).await?;
    }
    Ok(())
}

/// How long a page of jobs takes, read again and again until the work is over.
async fn read_api(ground: &BenchTarget, is_over: &AtomicBool) -> Result<Samples, Error> {
    let mut samples = Samples::default();
    while !is_over.load(Ordering::Relaxed) {
        let asked = ground.clock.monotonic();
        let _: JobList = ground.admin().get("/jobs?limit=50").await?;
        samples.add(ground.clock.monotonic().saturating_sub(asked));
        ground.clock.sleep(READ_EVERY).await;
    }
    Ok(samples)
}

/// The clients of the event stream.
struct Audience {
    seats: Vec<Arc<Listener>>,
    _listening: JoinSet<()>,
}

/// What one client has received.
#[derive(Default)]
struct Listener {
    position: AtomicU64,
    frames: AtomicU64,
    has_gap: AtomicBool,
}

impl Audience {
    async fn open(ground: &BenchTarget, tokens: &[CreateTokenResponse], clients: usize) -> Result<Self, Error> {
        let (mut opening, mut listening, mut seats) = (JoinSet::new(), JoinSet::new(), Vec::new());
        for n in 0..clients {
            let token = tokens[n / STREAMS_PER_TOKEN].secret.clone();
            let base = ground.admin().base().to_owned();
            let client = Client::new(Endpoint { base, token, product: None, trust: Trust::Public })?;
            opening.spawn(async move {
                let mut stream = client.events("/events/stream", None).await?;
                let position = position_of(&mut stream).await?;
                Ok::<_, Error>((stream, position))
            });
            if opening.len() >= OPENING_MAX || n + 1 == clients {
                while let Some(opened) = opening.join_next().await {
                    let (stream, position) = opened.map_err(|error| Error::failed(error.to_string()))??;
                    let seat = Arc::new(Listener { position: position.into(), ..Listener::default() });
                    listening.spawn(listen(stream, Arc::clone(&seat)));
                    seats.push(seat);
                }
            }
        }
        Ok(Self { seats, _listening: listening })
    }

    /// Waits until every client has received the event at `last`; returns how many have not.
    async fn wait_for(&self, ground: &BenchTarget, last: u64) -> u64 {
        let started = ground.clock.monotonic();
        loop {
            let behind = self.seats.iter().filter(|seat| seat.position.load(Ordering::Relaxed) < last).count() as u64;
            if behind == 0 || ground.clock.monotonic().saturating_sub(started) > CATCH_UP_MAX {
                return behind;
            }
            ground.clock.sleep(Duration::from_millis(50)).await;
        }
    }

    fn frames(&self) -> u64 {
        self.seats.iter().map(|seat| seat.frames.load(Ordering::Relaxed)).sum()
    }

    fn gaps(&self) -> u64 {
        self.seats.iter().filter(|seat| seat.has_gap.load(Ordering::Relaxed)).count() as u64
    }
}

/// Reads a stream to its end. Events of the whole fleet are numbered without gaps.
async fn listen(mut stream: EventStream, seat: Arc<Listener>) {
    while let Ok(Some(event)) = stream.next().await {
        seat.frames.fetch_add(1, Ordering::Relaxed);
        match event.event.as_str() {
            "job" => {
                let before = seat.position.load(Ordering::Relaxed);
                let position = event.id.as_deref().and_then(number).unwrap_or(0);
                if position != before + 1 {
                    seat.has_gap.store(true, Ordering::Relaxed);
                }
                seat.position.store(position, Ordering::Relaxed);
            }
            "reset" => seat.has_gap.store(true, Ordering::Relaxed),
            _ => {}
        }
    }
    // A stream that ends before the benchmark does has missed the rest.
    seat.has_gap.store(true, Ordering::Relaxed);
}

/// Where a new stream begins.
async fn position_of(stream: &mut EventStream) -> Result<u64, Error> {
    let hello = stream.next().await?.and_then(|hello| hello.id.as_deref().and_then(number));
    hello.ok_or_else(|| Error::failed("the event stream begins without a position"))
}

/// The position in an event's id, which may name the generation of the store first.
fn number(id: &str) -> Option<u64> {
    id.rsplit('.').next()?.parse().ok()
}

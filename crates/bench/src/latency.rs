//! From the submitter's 201 to the factory's lease, at a steady rate [P1].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, JobId, ProductId};
use parking_lot::Mutex;
use protocol::SubmitResponse;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::fake_worker::FakeWorker;
use crate::statistics::{Samples, millis, rounded};
use crate::target::{BenchSite, BenchTarget};
use crate::watcher::Watcher;
use crate::worker_pool::WorkerPool;
use crate::workload;
use crate::{Error, LatencyOptions, Progress};

/// Factories that share the work, and seats of each.
const FACTORIES: u32 = 4;
const SEATS: u32 = 32;

/// Seconds before the clock starts.
const WARM_UP: u32 = 2;

/// The headings of the table.
const HEADINGS: &[&str] =
    &["BUDGETS", "JOBS/S", "JOBS", "P50 ms", "P90 ms", "P99 ms", "MAX ms", "FROM SENDING: P50, P99 ms"];

#[derive(Serialize)]
struct Report {
    bench: &'static str,
    rate: u32,
    #[serde(flatten)]
    measured: Measurement,
    /// The same with budgets enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    with_budgets: Option<Measurement>,
    /// How many times longer the 50th and 99th percentiles are with budgets.
    #[serde(skip_serializing_if = "Option::is_none")]
    budgets_p50_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budgets_p99_ratio: Option<f64>,
}

#[derive(Clone, Copy, Serialize)]
struct Measurement {
    jobs: usize,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// The same from the moment at which the request was sent: work cannot hide in front of the answer.
    sent_p50_ms: f64,
    sent_p99_ms: f64,
}

/// How long jobs took to their leases.
#[derive(Default)]
struct LatencySamples {
    from_answer: Samples,
    from_request: Samples,
}

/// When each job was sent, acknowledged and when its lease was held, on this process' clock.
#[derive(Default)]
struct JobTimestamps {
    sent: HashMap<JobId, Duration>,
    acknowledged: HashMap<JobId, Duration>,
    held: HashMap<JobId, Duration>,
}

/// Measures the latency of dispatch.
pub(crate) async fn run(
    progress: Progress<'_>,
    site: &BenchSite,
    args: &LatencyOptions,
) -> Result<crate::Report, Error> {
    if args.budgets {
        site.require_own("--budgets")?;
    }
    let measured = Measurement::of(&measure(progress, site, args, false).await?);
    let with_budgets = match args.budgets {
        true => Some(Measurement::of(&measure(progress, site, args, true).await?)),
        false => None,
    };
    let ratio = |of: fn(&Measurement) -> f64| with_budgets.map(|with| rounded(of(&with) / of(&measured), 3));
    let report = Report {
        bench: "latency",
        rate: args.rate,
        measured,
        with_budgets,
        budgets_p50_ratio: ratio(|one| one.p50_ms),
        budgets_p99_ratio: ratio(|one| one.p99_ms),
    };
    let rows = [("off", Some(measured)), ("on", with_budgets)];
    let rows = rows.into_iter().filter_map(|(budgets, measured)| Some(measured?.row(budgets, args.rate)));
    crate::Report::new(&report, HEADINGS, rows.collect())
}

impl Measurement {
    fn of(samples: &LatencySamples) -> Self {
        let LatencySamples { from_answer, from_request } = samples;
        Self {
            jobs: from_answer.len(),
            p50_ms: millis(from_answer.median()),
            p90_ms: millis(from_answer.percentile(90.0)),
            p99_ms: millis(from_answer.percentile(99.0)),
            max_ms: millis(from_answer.percentile(100.0)),
            sent_p50_ms: millis(from_request.median()),
            sent_p99_ms: millis(from_request.percentile(99.0)),
        }
    }

    fn row(&self, budgets: &str, rate: u32) -> Vec<String> {
        vec![
            budgets.to_owned(),
            rate.to_string(),
            self.jobs.to_string(),
            format!("{:.2}", self.p50_ms),
            format!("{:.2}", self.p90_ms),
            format!("{:.2}", self.p99_ms),
            format!("{:.2}", self.max_ms),
            format!("{:.2}, {:.2}", self.sent_p50_ms, self.sent_p99_ms),
        ]
    }
}

async fn measure(
    progress: Progress<'_>,
    site: &BenchSite,
    args: &LatencyOptions,
    budgets: bool,
) -> Result<LatencySamples, Error> {
    let mut ground = site.open().await?;
    let product = ground.product().await?;
    if budgets {
        ground.enforce_budget(&product).await?;
    }
    let taken = measure_on(progress, &ground, &product, args).await?;
    ground.stop().await?;
    Ok(taken)
}

async fn measure_on(
    progress: Progress<'_>,
    ground: &BenchTarget,
    product: &ProductId,
    args: &LatencyOptions,
) -> Result<LatencySamples, Error> {
    let moments: Arc<Mutex<JobTimestamps>> = Arc::default();
    let work = |hand| live(hand, Arc::clone(&ground.clock), Arc::clone(&moments));
    let mut crew = WorkerPool::hire(ground, product, (FACTORIES, SEATS), work).await?;
    let mut watcher = Watcher::open(ground.admin(), product).await?;
    let (warm_up, count) = (u64::from(WARM_UP * args.rate), u64::from(args.seconds * args.rate));
    progress.note(&format!("{} jobs/s for {} seconds, after {WARM_UP} to warm up", args.rate, args.seconds));
    let submitting = async {
        submit_steadily(ground, product, args.rate, (warm_up, count), &moments).await?;
        watcher.wait_for(warm_up + count).await
    };
    crew.during(submitting).await?;
    let JobTimestamps { sent, acknowledged, held } = std::mem::take(&mut *moments.lock());
    let mut taken = LatencySamples::default();
    for (job, acknowledged) in acknowledged {
        let Some(held) = held.get(&job) else {
            return Err(Error::failed(format!("job {job} shipped without a lease that was seen")));
        };
        // A lease that was held before its submitter had read the answer took no time at all.
        taken.from_answer.add(held.saturating_sub(acknowledged));
        if let Some(sent) = sent.get(&job) {
            taken.from_request.add(held.saturating_sub(*sent));
        }
    }
    Ok(taken)
}

/// Submits at the rate; those of the warm-up are not noted.
async fn submit_steadily(
    ground: &BenchTarget,
    product: &ProductId,
    rate: u32,
    (warm_up, count): (u64, u64),
    moments: &Arc<Mutex<JobTimestamps>>,
) -> Result<(), Error> {
    let every = Duration::from_secs(1) / rate.max(1);
    let (started, mut submitting) = (ground.clock.monotonic(), JoinSet::new());
    for n in 0..warm_up + count {
        // By the calendar, not by the last answer: a slow answer must not slow the rate down.
        let due = started + every * u32::try_from(n).unwrap_or(u32::MAX);
        let wait = due.saturating_sub(ground.clock.monotonic());
        if !wait.is_zero() {
            ground.clock.sleep(wait).await;
        }
        let (client, clock, moments) = (ground.admin().clone(), Arc::clone(&ground.clock), Arc::clone(moments));
        let request = workload::submit(product, n);
        let counts = n >= warm_up;
        submitting.spawn(async move {
            let sent = clock.monotonic();
            let answer: SubmitResponse = client.post("/jobs", &request).await?;
            if counts {
                let mut moments = moments.lock();
                moments.sent.insert(answer.job.id, sent);
                moments.acknowledged.insert(answer.job.id, clock.monotonic());
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(done) = submitting.join_next().await {
        done.map_err(|error| Error::failed(error.to_string()))??;
    }
    Ok(())
}

/// Lives every offer of a factory to its end, and notes when its lease was held.
async fn live(hand: FakeWorker, clock: Arc<dyn Clock>, moments: Arc<Mutex<JobTimestamps>>) -> Result<(), Error> {
    workload::live_each(hand, move |hand, offer| {
        let (clock, moments) = (Arc::clone(&clock), Arc::clone(&moments));
        async move {
            let accepted = hand.accept(&offer.message).await?;
            let (job, epoch) = (offer.message.job_id, accepted.lease_epoch);
            moments.lock().held.insert(job, clock.monotonic());
            offer.complete().await?;
            hand.start(job, epoch).await?;
            hand.complete(job, epoch).await?;
            Ok(())
        }
    })
    .await
}

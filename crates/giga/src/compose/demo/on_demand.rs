//! `giga up --demo --pool`: a fleet that scales from zero to what its work needs, and back to zero.

use std::time::Duration;

use anyhow::Context;
use client::Client;
use clock::SystemClock;
use domain::{Clock, JobId, StageName};
use protocol::{JobDetail, PoolView, SubmitRequest, SubmitResponse};
use tokio_util::sync::CancellationToken;

use super::{DemoFiles, PATIENCE, SAMPLES, client_of};
use crate::cli::UpArgs;
use crate::compose::coordinator::CoordinatorProcess;
use crate::compose::on_demand::{LocalScaling, PoolTimes};
use crate::compose::signals;
use crate::output::Output;

/// Jobs of the demo for each factory that it may start: its seats.
const JOBS_PER_FACTORY: u32 = 3;

/// A factory leaves after this time without work: short, so that the user sees it.
const IDLE_AFTER_MS: u64 = 3_000;

/// How often the pool is read.
const READ_EVERY: Duration = Duration::from_millis(200);

const ANNOUNCEMENT: &str = "\
This demo takes about 15 seconds, leaves nothing behind, and shows factories on demand: no factory runs, jobs arrive, the
scaler starts as many factories as they need, and without work the coordinator tells them to leave. Watch the page Fleet.
";

/// Prepares the demo, runs the fleet, and keeps running until it is stopped.
pub(super) async fn run(args: &UpArgs, max: u32, out: &Output) -> anyhow::Result<()> {
    let stop = signals::stop_on_signal();
    let scene = DemoFiles::set(args)?;
    let coordination = CoordinatorProcess::open(&scene.config, &stop).await?;
    let times = PoolTimes { idle_after_ms: Some(IDLE_AFTER_MS) };
    let scaling = LocalScaling::prepare(&scene.config, &coordination, max, times).await?;
    out.note(ANNOUNCEMENT);
    out.note(&coordination.browser_note(&scene.config)?);
    let token = std::fs::read_to_string(scene.config.data.admin_token())?;
    let client = client_of(&coordination.api, token.trim())?;
    let served = CancellationToken::new();
    let work = async {
        scaling.run(&scene.config, &stop).await;
        served.cancel();
    };
    let serve = async {
        let ran = coordination.run_on(&scene.config, served.clone(), |_| ()).await;
        stop.cancel();
        ran
    };
    let show = async {
        let shown = tokio::select! {
            shown = play(&client, max, out) => shown,
            () = stop.cancelled() => Ok(()),
        };
        if shown.is_err() {
            stop.cancel();
        }
        shown
    };
    let (ran, (), shown) = tokio::join!(serve, work, show);
    shown.and(ran)
}

/// Submits jobs, and prints each change of the pool until no factory runs.
async fn play(client: &Client, max: u32, out: &Output) -> anyhow::Result<()> {
    let clock = SystemClock::new();
    let jobs = submit_all(client, max * JOBS_PER_FACTORY).await?;
    out.note(&format!("{}  submitted {} jobs", clock.now(), jobs.len()));
    let (started, mut told, mut most) = (clock.monotonic(), None, 0);
    loop {
        let pool: PoolView = client.get("/pools/local").await?;
        let scale = &pool.scale;
        let figures = (scale.live, scale.starting, scale.waiting, scale.used);
        most = most.max(scale.live);
        if told != Some(figures) {
            let (live, starting, waiting, used) = figures;
            out.note(&format!(
                "{}  {live} of {max} factories run, {starting} starting; {waiting} jobs wait, {used} run",
                clock.now()
            ));
            told = Some(figures);
        }
        if scale.live == 0 && scale.wanted == 0 && are_done(client, &jobs).await? {
            break;
        }
        let took = clock.monotonic().saturating_sub(started);
        anyhow::ensure!(took < PATIENCE, "the demo's jobs did not finish in time: see `giga alerts`");
        clock.sleep(READ_EVERY).await;
    }
    out.note(&format!(
        "\nAll {} jobs have finished: from no factory to {most}, and back to none. The coordinator stays up and starts \
         factories for new work; stop it with Ctrl-C.",
        jobs.len()
    ));
    std::future::pending().await
}

async fn submit_all(client: &Client, count: u32) -> anyhow::Result<Vec<JobId>> {
    let mut jobs = Vec::new();
    for number in 0..count {
        let request = SubmitRequest {
            body_md: SAMPLES[0].manifest.to_owned(),
            idempotency_key: Some(format!("demo-{number}")),
            ..SubmitRequest::default()
        };
        let submitted: SubmitResponse =
            client.post("/jobs", &request).await.context("cannot submit a job of the demo")?;
        jobs.push(submitted.job.id);
    }
    Ok(jobs)
}

async fn are_done(client: &Client, jobs: &[JobId]) -> anyhow::Result<bool> {
    for job in jobs {
        let detail: JobDetail = client.get(&format!("/jobs/{job}")).await?;
        if !matches!(detail.job.stage, StageName::Testing | StageName::Shipped) {
            return Ok(false);
        }
    }
    Ok(true)
}

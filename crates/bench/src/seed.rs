//! Jobs that are there before the clock starts, written straight into the store of a coordinator that does not run yet.

use std::sync::Arc;
use std::time::Duration;

use clock::{SystemClock, SystemEntropy};
use domain::{
    Actor, Body, Clock, DepsState, Entropy, Expected, Job, JobId, JobStore, Manifest, Priority, ProductId, StageEvent,
    Strictness, Submission, Timestamp,
};

use crate::workload;
use crate::{Error, Progress};

/// Jobs of one commit, and commits on their way at one time.
const CHUNK: u64 = 1_000;

/// A note on progress after so many jobs.
const NOTE_EVERY: u64 = 200_000;

/// One of so many jobs has a tag, and a high priority.
pub(crate) const RARE: u64 = 100;

/// The tag of the jobs whose number has this remainder.
pub(crate) fn tag(remainder: u64) -> String {
    format!("bench-{remainder}")
}

/// What becomes of the jobs that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeedStage {
    /// They are over: submitted and cancelled.
    Over,
    /// They wait for a factory.
    Open,
}

/// Writes `count` jobs of one product, numbered from `from` on.
pub(crate) async fn seed(
    progress: Progress<'_>,
    store: &Arc<dyn JobStore>,
    product: &ProductId,
    from: u64,
    count: u64,
    fate: SeedStage,
) -> Result<(), Error> {
    let clock = SystemClock::new();
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let mut done = 0;
    while done < count {
        let size = CHUNK.min(count - done);
        let now = clock.now();
        let units: Result<Vec<_>, Error> = (0..size)
            .map(|n| {
                let body = workload::manifest(product, from + done + n);
                let job = job(product, from + done + n, &body, JobId::new(now, entropy.bytes()), now, fate)?;
                Ok(job.commit_at(Expected::Absent, Some(Body(body.into()))))
            })
            .collect();
        for outcome in store.commit(units?).await {
            outcome.map_err(|error| Error::failed(format!("a job could not be stored: {error}")))?;
        }
        done += size;
        if done % NOTE_EVERY == 0 {
            progress.note(&format!("stored {done} of {count} jobs"));
        }
    }
    Ok(())
}

fn job(product: &ProductId, n: u64, body: &str, id: JobId, at: Timestamp, fate: SeedStage) -> Result<Job, Error> {
    let manifest = Manifest::parse(body, Strictness::Strict)
        .map_err(|findings| Error::failed(format!("the sample manifest is refused: {findings:?}")))?;
    let mut spec = manifest.spec;
    spec.tags = [tag(n % RARE).parse().map_err(|error| Error::failed(format!("{error}")))?].into();
    if n.is_multiple_of(RARE) {
        spec.priority = Priority::High;
    }
    let submission = Submission {
        id,
        product: product.clone(),
        spec,
        deps: Vec::new(),
        tree: None,
        profile: None,
        item: None,
        idempotency_key: None,
        body_sha256: String::new(),
        by: "giga bench".to_owned(),
        owner: None,
        at,
    };
    let job = Job::submit(submission, DepsState::Met);
    match fate {
        SeedStage::Open => Ok(job),
        SeedStage::Over => {
            let cancelled = StageEvent::Cancelled { message: None };
            job.apply(cancelled, at, Actor::Coordinator).map_err(|refusal| Error::failed(refusal.to_string()))
        }
    }
}

/// How long something took.
pub(crate) async fn timed<T>(clock: &dyn Clock, work: impl Future<Output = T>) -> (T, Duration) {
    let started = clock.monotonic();
    let value = work.await;
    (value, clock.monotonic().saturating_sub(started))
}

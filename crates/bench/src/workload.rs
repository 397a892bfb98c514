//! Whole lives of jobs: who submits them, and who lives them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use client::Client;
use clock::SystemEntropy;
use domain::{Capability, Entropy, JobId, ProductId};
use parking_lot::Mutex;
use protocol::{
    AcceptResponse, BatchRequest, BatchResponse, SubmitRequest, SubmitResponse, WorkOperation, WorkOutcome,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::Error;
use crate::fake_worker::{FakeWorker, Offer, started};

/// A manifest of this many bytes is what a short job looks like.
const BODY_LEN: usize = 1_024;

/// Operations of one batched request: enough to share its cost, few enough to answer soon.
const OPERATIONS_MAX: usize = 256;

/// What the capability begins with that only the factories of one benchmark offer, before its own tag.
const ONLY_THERE: &str = "has:giga-bench-";

/// The id of this benchmark. The process id would not be unique: another container has the same ones.
static TAG: LazyLock<String> = LazyLock::new(|| {
    let entropy: &dyn Entropy = &SystemEntropy;
    format!("{:016x}", u64::from_be_bytes(entropy.bytes()))
});

/// What the factories of this benchmark offer and no other does: a fleet that is in use gets none of its jobs, nor does
/// another benchmark.
pub(crate) fn only_here() -> String {
    format!("{ONLY_THERE}{}", *TAG)
}

/// Whether a job that needs this is for the factories of another benchmark.
pub(crate) fn is_only_elsewhere(capability: &Capability) -> bool {
    capability.as_str().strip_prefix(ONLY_THERE).is_some_and(|tag| tag != *TAG)
}

/// A manifest of one kilobyte for the benchmarks' product.
pub(crate) fn manifest(product: &ProductId, n: u64) -> String {
    let mut text = format!(
        "---\ntitle: Job {n} of a benchmark\nproduct: {product}\nengine: command\ncapabilities: [\"{}\"]\n---\n\n",
        only_here()
    );
    while text.len() < BODY_LEN {
        text.push_str("Mend the gate, oil its hinges, and see that it closes by itself.\n");
    }
    text.truncate(BODY_LEN);
    text
}

/// A submit of such a manifest.
pub(crate) fn submit(product: &ProductId, n: u64) -> SubmitRequest {
    SubmitRequest { body_md: manifest(product, n), ..SubmitRequest::default() }
}

/// Submits `count` jobs by `callers` at once, one per request.
pub(crate) async fn submit_singly(client: &Client, product: &ProductId, count: u64, callers: u64) -> Result<(), Error> {
    let (client, product) = (client.clone(), product.clone());
    share(count, callers, 1, move |numbers| {
        let (client, request) = (client.clone(), submit(&product, numbers.start));
        async move {
            let _: SubmitResponse = client.post("/jobs", &request).await?;
            Ok(())
        }
    })
    .await
}

/// Submits `count` jobs by `callers` at once, `batch` per request.
pub(crate) async fn submit_in_batches(
    client: &Client,
    product: &ProductId,
    count: u64,
    callers: u64,
    batch: u64,
) -> Result<(), Error> {
    let (client, product) = (client.clone(), product.clone());
    share(count, callers, batch, move |numbers| {
        let (client, request) = (client.clone(), BatchRequest { jobs: numbers.map(|n| submit(&product, n)).collect() });
        async move {
            let answer: BatchResponse = client.post("/jobs/batch", &request).await?;
            match answer.outcomes.into_iter().find_map(|outcome| outcome.problem) {
                Some(problem) => Err(Error::failed(format!("a job of a batch was refused: {problem}"))),
                None => Ok(()),
            }
        }
    })
    .await
}

/// Hands out the numbers below `count`, `step` at a time, to `callers` at once.
async fn share<C, F>(count: u64, callers: u64, step: u64, call: C) -> Result<(), Error>
where
    C: Fn(Range<u64>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<(), Error>> + Send,
{
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let (call, next) = (call.clone(), Arc::clone(&next));
        tasks.spawn(async move {
            loop {
                let from = next.fetch_add(step, Ordering::Relaxed);
                if from >= count {
                    return Ok(());
                }
                call(from..count.min(from + step)).await?;
            }
        });
    }
    all(tasks).await
}

async fn all(mut tasks: JoinSet<Result<(), Error>>) -> Result<(), Error> {
    while let Some(done) = tasks.join_next().await {
        done.map_err(|error| Error::failed(error.to_string()))??;
    }
    Ok(())
}

/// Takes every offer of a factory and lives it to the end, one operation per request; ends with the stream.
pub(crate) async fn live_singly(hand: FakeWorker) -> Result<(), Error> {
    live_each(hand, |hand, offer| async move {
        let AcceptResponse { lease_epoch, assignment, .. } = hand.accept(&offer.message).await?;
        offer.complete().await?;
        hand.start(assignment.job_id, lease_epoch).await?;
        hand.complete(assignment.job_id, lease_epoch).await?;
        Ok(())
    })
    .await
}

/// Does `live` with every offer of a factory, side by side, until the stream ends or one of them fails.
pub(crate) async fn live_each<L, F>(hand: FakeWorker, live: L) -> Result<(), Error>
where
    L: Fn(FakeWorker, Offer) -> F,
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    let mut inbox = hand.inbox().await?;
    let mut lives: JoinSet<Result<(), Error>> = JoinSet::new();
    loop {
        tokio::select! {
            offer = inbox.next() => match offer? {
                Some(offer) => drop(lives.spawn(live(hand.clone(), offer))),
                None => return all(lives).await,
            },
            Some(done) = lives.join_next() => done.map_err(|error| Error::failed(error.to_string()))??,
        }
    }
}

/// Accepts every offer of a factory and runs the job to its end; reports that are due at one time go in one request.
pub(crate) async fn live_in_batches(hand: FakeWorker) -> Result<(), Error> {
    let mut inbox = hand.inbox().await?;
    let (said, mut to_say) = mpsc::unbounded_channel::<WorkOperation>();
    let (offers, speaker) = (said.clone(), hand.clone());
    let unanswered: Arc<Mutex<HashMap<JobId, Offer>>> = Arc::default();
    let answered = Arc::clone(&unanswered);
    let mut tasks: JoinSet<Result<(), Error>> = JoinSet::new();
    tasks.spawn(async move {
        let mut operations = Vec::with_capacity(OPERATIONS_MAX);
        while to_say.recv_many(&mut operations, OPERATIONS_MAX).await > 0 {
            let jobs: Vec<JobId> = operations.iter().map(job_of).collect();
            let answer = speaker.work(std::mem::take(&mut operations)).await?;
            for (job, result) in jobs.into_iter().zip(answer.results) {
                let offer = answered.lock().remove(&job);
                if let Some(offer) = offer {
                    offer.complete().await?;
                }
                if let Some(next) = next_step(&speaker, job, result.outcome)? {
                    // The receiver is this very task.
                    let _ = said.send(next);
                }
            }
        }
        Ok(())
    });
    loop {
        tokio::select! {
            offer = inbox.next() => match offer? {
                Some(offer) => {
                    let request = hand.accept_of(&offer.message);
                    unanswered.lock().insert(request.job_id, offer);
                    drop(offers.send(WorkOperation::Accept { request }));
                }
                None => return Ok(()),
            },
            Some(ended) = tasks.join_next() => return ended.map_err(|error| Error::failed(error.to_string()))?,
        }
    }
}

fn job_of(operation: &WorkOperation) -> JobId {
    use WorkOperation as W;
    match operation {
        W::Accept { request } => request.job_id,
        W::Decline { request } => request.job_id,
        W::Start { job_id, .. }
        | W::Patch { job_id, .. }
        | W::Complete { job_id, .. }
        | W::Promote { job_id, .. }
        | W::Fail { job_id, .. }
        | W::Quota { job_id, .. }
        | W::Ask { job_id, .. }
        | W::AwaitSubtasks { job_id, .. }
        | W::Release { job_id, .. } => *job_id,
    }
}

/// What follows an answer.
fn next_step(worker: &FakeWorker, job_id: JobId, outcome: WorkOutcome) -> Result<Option<WorkOperation>, Error> {
    Ok(match outcome {
        WorkOutcome::Accepted(accepted) => {
            Some(WorkOperation::Start { job_id, request: started(accepted.lease_epoch)? })
        }
        WorkOutcome::Stage(answer) => {
            Some(WorkOperation::Complete { job_id, request: worker.completed(answer.lease_epoch) })
        }
        WorkOutcome::Completed(_) | WorkOutcome::Failed(_) | WorkOutcome::Quota(_) => None,
        WorkOutcome::Problem(problem) => {
            return Err(Error::failed(format!("job {job_id} was refused: {problem}")));
        }
    })
}

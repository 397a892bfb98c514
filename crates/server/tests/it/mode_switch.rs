//! Switching between the modes under load loses no job and runs none twice [I13].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use clock::{SeededEntropy, SystemClock};
use domain::{ClaimNonce, Clock as _, DispatchModes, Entropy, Epoch, EventKind, InstanceId, JobEvent, JobId, Mode};
use parking_lot::Mutex;
use protocol::{BatchRequest, BatchResponse, ClaimRequest, InboxEvent, ProductSettings, QueueVersion, SubmitRequest};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::fleet::{Fleet, Worker, eventually, random};

const JOBS: usize = 400;
const FACTORIES: usize = 4;
const SEED: u64 = 20_261_115;

/// What the factories have done together.
#[derive(Default)]
struct Done {
    grants: Mutex<Vec<(JobId, Epoch)>>,
    by_offer: AtomicUsize,
    by_claim: AtomicUsize,
    completed: AtomicUsize,
    is_over: AtomicBool,
}

// [I13] [D1]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn switching_modes_under_load_neither_loses_nor_repeats_jobs() {
    let fleet = Fleet::start().await;
    fleet.product("default", ProductSettings { auto_ship: Some(true), ..ProductSettings::default() }).await;
    let done = Arc::new(Done::default());
    let mut factories = JoinSet::new();
    for n in 0..FACTORIES {
        let worker = Arc::new(fleet.factory(&format!("factory-{n}")).await);
        let told = Arc::new(watch::Sender::default());
        factories.spawn(take_offers(Arc::clone(&worker), Arc::clone(&done), Arc::clone(&told)));
        factories.spawn(ask_for_work(worker, Arc::clone(&done), told));
    }

    let mut jobs = HashSet::new();
    let mut switches: BTreeMap<&str, usize> = BTreeMap::new();
    let (chance, clock) = (SeededEntropy::new(SEED), SystemClock::new());
    let chance = |below: u64| u64::from_le_bytes((&chance as &dyn Entropy).bytes()) % below;
    while done.completed.load(Ordering::Relaxed) < JOBS {
        let so_far = done.completed.load(Ordering::Relaxed);
        assert!(clock.monotonic() < Duration::from_secs(60), "seed {SEED}: {so_far} of {JOBS} done");
        if jobs.len() < JOBS {
            jobs.extend(submit_some(&fleet, (1 + chance(16) as usize).min(JOBS - jobs.len())).await);
        }
        let mode = [Mode::Push, Mode::Poll, Mode::Gate, Mode::Shadow][chance(4) as usize];
        fleet.admin.set_mode(None, Some(mode)).await.unwrap();
        *switches.entry(mode.as_str()).or_default() += 1;
        clock.sleep(Duration::from_millis(2 + chance(12))).await;
    }
    done.is_over.store(true, Ordering::Relaxed);

    eventually("all jobs shipped", || async {
        let state = fleet.state().await.0;
        state.iter().all(|(_, stage, count)| stage.as_str() == "shipped" && *count == JOBS as u64)
    })
    .await;
    check_the_log(&fleet, &jobs, &done).await;
    let ways = (done.by_offer.load(Ordering::Relaxed), done.by_claim.load(Ordering::Relaxed));
    println!("{ways:?} jobs offered and claimed in {switches:?}");
    assert!(ways.0 > JOBS / 20 && ways.1 > JOBS / 20, "{ways:?} offered and claimed in {switches:?}: proves little");
    factories.abort_all();
}

/// Every job was granted once, under one epoch, and shipped once; and every grant is in the log.
async fn check_the_log(fleet: &Fleet, jobs: &HashSet<JobId>, done: &Done) {
    let mut told: HashMap<JobId, Vec<(EventKind, Epoch)>> = HashMap::new();
    for recorded in fleet.log().await {
        let event: JobEvent = serde_json::from_str(&recorded.json).unwrap();
        told.entry(event.job_id).or_default().push((event.kind, event.epoch));
    }
    assert_eq!(told.keys().copied().collect::<HashSet<_>>(), *jobs);
    let mut granted = Vec::new();
    for (job, events) in &told {
        let of = |wanted: EventKind| events.iter().filter(move |(kind, _)| *kind == wanted);
        granted.extend(of(EventKind::Granted).map(|(_, epoch)| (*job, *epoch)));
        assert_eq!((of(EventKind::Completed).count(), of(EventKind::Shipped).count()), (1, 1), "{events:?}");
    }
    granted.sort();
    let mut seen = done.grants.lock().clone();
    seen.sort();
    assert_eq!(seen, granted, "what factories were granted is what the log says");
    assert_eq!(granted.len(), jobs.len(), "one grant for each job");
}

async fn submit_some(fleet: &Fleet, count: usize) -> Vec<JobId> {
    let jobs = vec![SubmitRequest { body_md: "# One\n".to_owned(), ..SubmitRequest::default() }; count];
    let answer: BatchResponse = fleet.admin.post("/jobs/batch", &BatchRequest { jobs }).await.unwrap();
    answer.outcomes.into_iter().map(|outcome| outcome.id.unwrap()).collect()
}

/// Accepts offers, and follows the modes.
async fn take_offers(worker: Arc<Worker>, done: Arc<Done>, told: Arc<watch::Sender<DispatchModes>>) {
    let mut inbox = worker.inbox().await;
    while let Ok(Some(event)) = inbox.next().await {
        let text = format!(r#"{{"event":"{}","data":{}}}"#, event.event, event.data);
        match serde_json::from_str(&text).unwrap() {
            InboxEvent::Hello { modes } | InboxEvent::Modes(modes) => drop(told.send_replace(modes)),
            InboxEvent::Directive(_) | InboxEvent::Announcement(_) => {}
            InboxEvent::Dispatch(message) => {
                // An offer revoked in the meantime is refused, and the job is offered again.
                if let Ok(accepted) = worker.accept(&message).await {
                    done.by_offer.fetch_add(1, Ordering::Relaxed);
                    work(&worker, &done, message.job_id, accepted.lease_epoch).await;
                }
            }
        }
    }
}

/// Claims work while the modes say so, without a pause.
async fn ask_for_work(worker: Arc<Worker>, done: Arc<Done>, told: Arc<watch::Sender<DispatchModes>>) {
    let mut told = told.subscribe();
    let mut tag = None;
    let mut nonce = ClaimNonce::from_bytes(random());
    while !done.is_over.load(Ordering::Relaxed) {
        let mode = told.borrow_and_update().mode;
        if mode == Mode::Push {
            told.changed().await.unwrap();
            continue;
        }
        if mode == Mode::Gate {
            match worker.client.queue_state(&[], tag.as_deref()).await.unwrap() {
                QueueVersion::Moved { tag: moved, .. } => tag = Some(moved),
                QueueVersion::Same => {
                    SystemClock::new().sleep(Duration::from_millis(1)).await;
                    continue;
                }
            }
        }
        let claimed = worker.client.claim(&request(worker.instance, nonce)).await.unwrap();
        for granted in claimed.granted {
            nonce = ClaimNonce::from_bytes(random());
            done.by_claim.fetch_add(1, Ordering::Relaxed);
            work(&worker, &done, granted.accepted.assignment.job_id, granted.accepted.lease_epoch).await;
        }
    }
}

fn request(instance: InstanceId, claim_nonce: ClaimNonce) -> ClaimRequest {
    ClaimRequest {
        factory_id: None,
        instance,
        claim_nonce,
        limit: Some(2),
        products: None,
        jobs: None,
        except_products: Vec::new(),
    }
}

async fn work(worker: &Worker, done: &Done, job: JobId, epoch: Epoch) {
    done.grants.lock().push((job, epoch));
    worker.start(job, epoch).await.unwrap();
    worker.complete(job, epoch, None).await.unwrap();
    done.completed.fetch_add(1, Ordering::Relaxed);
}

//! The migration from polling to push and back, product by product and under load [D1][I13].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use domain::{ClaimNonce, Clock as _, DispatchModes, Epoch, EventKind, JobId, Mode, ProductId};
use parking_lot::Mutex;
use protocol::{
    BatchRequest, BatchResponse, ClaimRequest, DivergenceReport, EventList, InboxEvent, ProductSettings, SubmitRequest,
};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::fleet::{Fleet, Worker, eventually, random};

const FACTORIES: usize = 3;

/// Jobs of each product in each step.
const JOBS: usize = 24;

/// M0, M1, M2, and back.
const STEPS: [Mode; 6] = [Mode::Poll, Mode::Shadow, Mode::Push, Mode::SelfSelect, Mode::Shadow, Mode::Poll];

/// How a factory got a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Offered,
    Announced,
    Polled,
}

/// What the factories have done together.
#[derive(Default)]
struct Done {
    grants: Mutex<Vec<(JobId, Epoch, Way)>>,
    completed: Mutex<BTreeSet<JobId>>,
}

impl Done {
    fn count(&self, jobs: &[JobId]) -> usize {
        let completed = self.completed.lock();
        jobs.iter().filter(|job| completed.contains(job)).count()
    }

    fn ways(&self, jobs: &[JobId]) -> BTreeMap<Way, usize> {
        let mut ways = BTreeMap::new();
        for (_, _, way) in self.grants.lock().iter().filter(|(job, ..)| jobs.contains(job)) {
            *ways.entry(*way).or_default() += 1;
        }
        ways
    }
}

/// Moves one product through every step while another one stays where it is.
pub(crate) async fn migration_story(fleet: Fleet) {
    let (moved, other): (ProductId, ProductId) = ("moved".parse().unwrap(), "other".parse().unwrap());
    for product in ["moved", "other"] {
        fleet.product(product, ProductSettings { auto_ship: Some(true), ..ProductSettings::default() }).await;
    }
    fleet.admin.set_mode(None, Some(Mode::Poll)).await.unwrap();
    let done = Arc::new(Done::default());
    let mut factories = JoinSet::new();
    for n in 0..FACTORIES {
        let worker = Arc::new(fleet.factory(&format!("factory-{n}")).await);
        let told = Arc::new(watch::Sender::default());
        factories.spawn(follow_inbox(Arc::clone(&worker), Arc::clone(&done), Arc::clone(&told)));
        factories.spawn(poll(worker, Arc::clone(&done), told));
    }

    let mut jobs = BTreeMap::from([(moved.clone(), Vec::new()), (other.clone(), Vec::new())]);
    let mut ways: Vec<BTreeMap<Way, usize>> = Vec::new();
    for mode in STEPS {
        fleet.admin.set_mode(Some(&moved), Some(mode)).await.unwrap();
        let mut own = Vec::new();
        for _ in 0..JOBS / 6 {
            own.extend(submit(&fleet, &moved, 6).await);
            jobs.get_mut(&other).unwrap().extend(submit(&fleet, &other, 6).await);
        }
        // The next switch finds jobs that wait and jobs that run.
        eventually("half of the jobs of a step", || async { done.count(&own) >= JOBS / 2 }).await;
        ways.push(done.ways(&own));
        jobs.get_mut(&moved).unwrap().extend(own);
    }
    let all: Vec<JobId> = jobs.values().flatten().copied().collect();
    eventually("every job", || async { done.count(&all) == all.len() }).await;

    println!("{ways:?} by step");
    for (way, step) in [(Way::Offered, 2), (Way::Announced, 3), (Way::Polled, 0)] {
        assert!(ways[step].contains_key(&way), "{:?} delivered nothing: {ways:?}", STEPS[step]);
    }
    let stayed = done.ways(&jobs[&other]);
    assert_eq!(stayed.keys().collect::<Vec<_>>(), [&Way::Polled], "the other product was moved too");
    check_the_events(&fleet, &all, &done).await;
    check_the_comparison(&fleet, &moved).await;
    factories.abort_all();
}

/// Every job was granted and ended once, in growing epochs, and every grant is one that a factory got.
async fn check_the_events(fleet: &Fleet, jobs: &[JobId], done: &Done) {
    let mut granted = Vec::new();
    for job in jobs {
        let events: EventList = fleet.admin.get(&format!("/jobs/{job}/events?limit=1000")).await.unwrap();
        let epochs: Vec<Epoch> = events.items.iter().map(|event| event.epoch).collect();
        assert!(epochs.is_sorted(), "{epochs:?}");
        let of = |wanted: EventKind| events.items.iter().filter(move |event| event.kind == wanted);
        granted.extend(of(EventKind::Granted).map(|event| (*job, event.epoch)));
        let ends = (of(EventKind::Granted).count(), of(EventKind::Completed).count(), of(EventKind::Shipped).count());
        assert_eq!(ends, (1, 1, 1), "{:?}", events.items);
    }
    let mut seen: Vec<_> = done.grants.lock().iter().map(|(job, epoch, _)| (*job, *epoch)).collect();
    seen.sort();
    granted.sort();
    assert_eq!(seen, granted, "what factories were granted is what the events say");
}

/// Push mode would have done the same.
async fn check_the_comparison(fleet: &Fleet, moved: &ProductId) {
    let report: DivergenceReport = fleet.admin.get("/divergence").await.unwrap();
    let [product] = &report.products[..] else { panic!("{report:?}") };
    let summary = &product.summary;
    assert_eq!((&product.product_id, product.mode, product.compared), (moved, Mode::Poll, false));
    assert!(summary.decisions > 0 && summary.divergent == 0 && summary.counts.missing == 0, "{report:?}");
    assert!(!summary.verdict.safe && summary.verdict.text.contains("of 24 hours"), "{:?}", summary.verdict);
}

async fn submit(fleet: &Fleet, product: &ProductId, count: usize) -> Vec<JobId> {
    let job =
        SubmitRequest { body_md: "# One\n".to_owned(), product_id: Some(product.clone()), ..SubmitRequest::default() };
    let answer: BatchResponse =
        fleet.admin.post("/jobs/batch", &BatchRequest { jobs: vec![job; count] }).await.unwrap();
    answer.outcomes.into_iter().map(|outcome| outcome.id.unwrap()).collect()
}

/// Accepts offers, claims announced jobs, and follows the modes.
async fn follow_inbox(worker: Arc<Worker>, done: Arc<Done>, told: Arc<watch::Sender<DispatchModes>>) {
    let mut inbox = worker.inbox().await;
    while let Ok(Some(event)) = inbox.next().await {
        let text = format!(r#"{{"event":"{}","data":{}}}"#, event.event, event.data);
        match serde_json::from_str(&text).unwrap() {
            InboxEvent::Hello { modes } | InboxEvent::Modes(modes) => drop(told.send_replace(modes)),
            InboxEvent::Directive(_) => {}
            InboxEvent::Announcement(announcement) => {
                let jobs = Some(vec![announcement.job_id]);
                claim(&worker, &done, ClaimRequest { jobs, ..request(&worker) }, Way::Announced).await;
            }
            InboxEvent::Dispatch(message) => {
                assert!(!message.shadow, "a shadow message was delivered");
                if let Ok(accepted) = worker.accept(&message).await {
                    work(&worker, &done, message.job_id, accepted.lease_epoch, Way::Offered).await;
                }
            }
        }
    }
}

/// Polls for the products that are polled, as the real worker does.
async fn poll(worker: Arc<Worker>, done: Arc<Done>, told: Arc<watch::Sender<DispatchModes>>) {
    let told = told.subscribe();
    loop {
        let modes = told.borrow().clone();
        let pushed = modes.products.iter().filter(|(_, mode)| !mode.polls()).map(|(product, _)| product.clone());
        let request = ClaimRequest { except_products: pushed.collect(), ..request(&worker) };
        if modes.mode.polls() {
            claim(&worker, &done, request, Way::Polled).await;
        }
        SystemClock::new().sleep(Duration::from_millis(5)).await;
    }
}

fn request(worker: &Worker) -> ClaimRequest {
    ClaimRequest {
        factory_id: None,
        instance: worker.instance,
        claim_nonce: ClaimNonce::from_bytes(random()),
        limit: Some(2),
        jobs: None,
        products: None,
        except_products: Vec::new(),
    }
}

async fn claim(worker: &Worker, done: &Done, request: ClaimRequest, way: Way) {
    for granted in worker.client.claim(&request).await.unwrap().granted {
        work(worker, done, granted.accepted.assignment.job_id, granted.accepted.lease_epoch, way).await;
    }
}

async fn work(worker: &Worker, done: &Done, job: JobId, epoch: Epoch, way: Way) {
    done.grants.lock().push((job, epoch, way));
    worker.start(job, epoch).await.unwrap();
    worker.complete(job, epoch, None).await.unwrap();
    done.completed.lock().insert(job);
}

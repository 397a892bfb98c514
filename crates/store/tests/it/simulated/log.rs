//! The derived log: complete, in each job's order, the same for all readers, whatever the feed returns.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{
    CommitError, EventSeq, Expected, Job, JobHistory, JobId, JobStore, Position, Revision, Scope, StoredEvent,
    Versioned,
};
use store::conformance::sample::{create, dispatched, granted, id, job, released, replace, seconds};
use store::document::DocumentStore;
use store::document::simulated::Faults;
use tokio::task::JoinSet;

use super::Cloud;

const JOBS: u32 = 30;
/// The first write, then rounds of three.
const EVENTS_EACH: u64 = 1 + 3 * ROUNDS;
const ROUNDS: u64 = 4;
const EVENTS: u64 = JOBS as u64 * EVENTS_EACH;

/// Writes a job as the coordinator does: after an unknown outcome it reads again first.
async fn write(store: &DocumentStore, base: Option<Versioned<Job>>, next: Job) -> Versioned<Job> {
    loop {
        let unit = match &base {
            Some(base) => replace(next.clone(), base.revision),
            None => create(next.clone()),
        };
        let wanted = unit.job.clone();
        match store.commit(vec![unit]).await.remove(0) {
            Ok(revision) => return Versioned { value: wanted, revision },
            Err(CommitError::Unknown) => {
                let found = store.job(wanted.id()).await.unwrap();
                match found {
                    Some(found) if found.value == wanted => return found,
                    found => assert_eq!(found, base),
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Takes a job through its rounds.
async fn live(store: &DocumentStore, n: u32) {
    let mut current = write(store, None, job(n)).await;
    for _ in 0..ROUNDS {
        for step in [|job| dispatched(job, seconds(9)), granted, released] {
            let next = step(current.value.clone());
            current = write(store, Some(current), next).await;
        }
    }
}

async fn log(store: &DocumentStore) -> Vec<StoredEvent> {
    store.events(&Scope::Fleet, Position(0), u16::MAX).await.unwrap()
}

/// Checks that each position occurs once, and each job's events are in order and without a gap.
fn check(log: &[StoredEvent]) {
    let positions: Vec<u64> = log.iter().map(|event| event.position.0).collect();
    assert_eq!(positions, (1..=log.len() as u64).collect::<Vec<_>>());
    let mut last: BTreeMap<JobId, EventSeq> = BTreeMap::new();
    for event in log {
        let before = last.insert(event.job, event.seq).unwrap_or_default();
        assert_eq!(event.seq, before.next(), "job {}", event.job);
    }
}

#[tokio::test]
async fn row_26_latest_versions_suffice_for_the_whole_log() {
    let cloud = Cloud::new(Faults::BAD_DAY, 26);
    let (writer, reader) = (cloud.open().await, cloud.open().await);
    for n in 0..JOBS {
        live(&writer, n).await;
    }

    // By now the feed returns each job once, at its thirteenth version.
    let derived = log(&reader).await;

    assert_eq!(derived.len() as u64, EVENTS);
    check(&derived);
    assert_eq!(log(&writer).await, derived);
}

#[tokio::test]
async fn row_26_the_state_does_not_depend_on_when_the_feed_is_read() {
    let (often, seldom) = (Cloud::new(Faults::BAD_DAY, 1), Cloud::new(Faults::BAD_DAY, 2));
    let (often_reader, seldom_reader) = (often.open().await, seldom.open().await);
    let (often_writer, seldom_writer) = (often.open().await, seldom.open().await);
    for n in 0..5 {
        live(&often_writer, n).await;
        log(&often_reader).await;
        live(&seldom_writer, n).await;
    }

    let by_job = |log: Vec<StoredEvent>| {
        let mut events: BTreeMap<JobId, Vec<Arc<str>>> = BTreeMap::new();
        for event in log {
            events.entry(event.job).or_default().push(event.json);
        }
        events
    };

    assert_eq!(by_job(log(&often_reader).await), by_job(log(&seldom_reader).await));
    assert_eq!(often_reader.census().await.unwrap(), seldom_reader.census().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn row_27_concurrent_processes_number_every_event_once() {
    let cloud = Cloud::new(Faults::BAD_DAY, 27);
    let mut tasks = JoinSet::new();
    for n in 0..JOBS {
        let store = cloud.open().await;
        tasks.spawn(async move { live(&store, n).await });
    }
    let mut readers = JoinSet::new();
    for _ in 0..3 {
        let store = cloud.open().await;
        readers.spawn(async move {
            let mut seen = Vec::new();
            let mut after = Position(0);
            while after < Position(EVENTS) {
                store.changed(after).await.unwrap();
                let events = store.events(&Scope::Fleet, after, 7).await.unwrap();
                after = events.last().map_or(after, |event| event.position);
                seen.extend(events);
            }
            seen
        });
    }
    tasks.join_all().await;

    let logs = readers.join_all().await;

    check(&logs[0]);
    assert_eq!(logs[0].len() as u64, EVENTS);
    assert!(logs.iter().all(|log| *log == logs[0]), "they heard different logs");
}

#[tokio::test]
async fn row_03_rereading_the_feed_changes_nothing() {
    let cloud = Cloud::new(Faults::default(), 3);
    let first = cloud.open().await;
    live(&first, 1).await;
    let before = log(&first).await;

    // A second process reads again all that the first has appended.
    cloud.database.set_faults(Faults { repeated_pages: 1.0, ..Faults::default() });
    let second = cloud.open().await;
    let after = log(&second).await;

    assert_eq!(after, before);
    assert_eq!(after.len() as u64, EVENTS_EACH);
    assert_eq!(second.job(id(1)).await.unwrap().unwrap().revision, Revision(EVENTS_EACH));
}

#[tokio::test]
async fn a_process_reads_its_own_writes_without_the_feed() {
    let cloud = Cloud::new(Faults { empty_pages: 1.0, ..Faults::default() }, 3);
    let store = cloud.open().await;

    live(&store, 1).await;

    assert_eq!(log(&store).await.len() as u64, EVENTS_EACH);
    let unit = job(2).commit_at(Expected::Absent, None);
    assert!(store.commit(vec![unit]).await[0].is_ok());
    assert_eq!(store.changed(Position(EVENTS_EACH)).await.unwrap(), Position(EVENTS_EACH + 1));
}

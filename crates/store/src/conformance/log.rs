//! The log: one order, without gaps, for all subscribers.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{DepsState, EventSeq, Job, JobEvent, JobId, Position, Revision, Scope, StoredEvent, Submission};
use tokio::task::JoinSet;

use super::sample::{create, dispatched, granted, id, job, released, replace, seconds, submission};
use super::writes::{stored, written};
use super::{Harness, Stores};

const WRITERS: u32 = 32;
/// Each job has a first write and this many rounds of three more.
const ROUNDS: u64 = 4;
const EVENTS: u64 = WRITERS as u64 * (1 + 3 * ROUNDS);

// [J7]
/// Thirty-two concurrent writers: each event has its own position, and a job's events are in the order of its writes.
pub async fn positions_grow_in_commit_order_without_gaps(bench: &mut dyn Harness) {
    let stores = bench.open().await;

    race(&stores).await;

    let log = stores.history.events(&Scope::Fleet, Position(0), u16::MAX).await.unwrap();
    assert_eq!(positions(&log), (1..=EVENTS).collect::<Vec<_>>());
    assert_in_order_of_seq(&log);
    for event in &log {
        let told: JobEvent = serde_json::from_str(&event.json).unwrap();
        assert_eq!((told.job_id, told.seq, told.product_id), (event.job, event.seq, event.product.clone()));
    }
    assert_eq!(stores.jobs.changed(Position(0)).await.unwrap(), Position(EVENTS));
}

// [row 24]
/// Waiting for a change and then reading on misses nothing and repeats nothing, while writers race.
pub async fn a_follower_sees_every_event_exactly_once(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let mut followers = JoinSet::new();
    for limit in [1, 7, 1000] {
        followers.spawn(follow(stores.clone(), limit));
    }

    race(&stores).await;

    while let Some(seen) = followers.join_next().await {
        let seen = seen.unwrap();
        assert_eq!(positions(&seen), (1..=EVENTS).collect::<Vec<_>>());
        assert_in_order_of_seq(&seen);
    }
}

/// The scopes are the fleet, some products and one job.
pub async fn a_scope_returns_only_its_own_events(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let of = |product: &str, n: u32| {
        create(Job::submit(Submission { product: product.parse().unwrap(), ..submission(n) }, DepsState::Met))
    };
    written(stores.jobs.commit(vec![of("notes", 1), of("tracker", 2), of("wiki", 3), of("notes", 4)]).await);
    let offered = dispatched(stored(&stores, 1).await, seconds(9));
    written(stores.jobs.commit(vec![replace(offered, Revision(1))]).await);
    let heard = async |scope: Scope, after: u64, limit: u16| {
        positions(&stores.history.events(&scope, Position(after), limit).await.unwrap())
    };
    let products = |names: &[&str]| Scope::Products(names.iter().map(|name| name.parse().unwrap()).collect());

    assert_eq!(heard(Scope::Fleet, 0, 100).await, [1, 2, 3, 4, 5]);
    assert_eq!(heard(Scope::Fleet, 1, 2).await, [2, 3]);
    assert_eq!(heard(Scope::Fleet, 5, 100).await, [0_u64; 0]);
    assert_eq!(heard(products(&["notes"]), 0, 100).await, [1, 4, 5]);
    assert_eq!(heard(products(&["wiki", "notes", "wiki"]), 1, 2).await, [3, 4]);
    assert_eq!(heard(products(&[]), 0, 100).await, [0_u64; 0]);
    assert_eq!(heard(Scope::Job(id(1)), 0, 100).await, [1, 5]);
    assert_eq!(heard(Scope::Job(id(1)), 1, 100).await, [5]);
    assert_eq!(heard(Scope::Job(id(9)), 0, 100).await, [0_u64; 0]);
}

/// A change that has happened is returned at once; one that has not wakes no subscriber.
pub async fn changed_returns_at_once_when_the_log_is_ahead(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let nothing_yet = tokio::time::timeout(Duration::ZERO, stores.jobs.changed(Position(0))).await;

    written(stores.jobs.commit(vec![create(job(1)), create(job(2))]).await);
    let refused = stores.jobs.commit(vec![create(job(1))]).await;

    assert!(nothing_yet.is_err() && refused[0].is_err());
    assert_eq!(stores.jobs.changed(Position(0)).await.unwrap(), Position(2));
    assert_eq!(stores.jobs.changed(Position(1)).await.unwrap(), Position(2));
    let at_the_end = tokio::time::timeout(Duration::ZERO, stores.jobs.changed(Position(2))).await;
    assert!(at_the_end.is_err());
}

/// Every writer takes a job of its own through its rounds, one write at a time.
async fn race(stores: &Stores) {
    let mut writers = JoinSet::new();
    for n in 0..WRITERS {
        let stores = stores.clone();
        writers.spawn(async move {
            written(stores.jobs.commit(vec![create(job(n))]).await);
            for round in 0..ROUNDS {
                let first = 3 * round + 1;
                for (revision, step) in (first..).zip([|job| dispatched(job, seconds(9)), granted, released]) {
                    let moved = step(stored(&stores, n).await);
                    written(stores.jobs.commit(vec![replace(moved, Revision(revision))]).await);
                }
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
}

async fn follow(stores: Stores, limit: u16) -> Vec<StoredEvent> {
    let mut seen: Vec<StoredEvent> = Vec::new();
    let mut after = Position(0);
    while after < Position(EVENTS) {
        stores.jobs.changed(after).await.unwrap();
        let events = stores.history.events(&Scope::Fleet, after, limit).await.unwrap();
        after = events.last().map_or(after, |event| event.position);
        seen.extend(events);
    }
    seen
}

fn positions(events: &[StoredEvent]) -> Vec<u64> {
    events.iter().map(|event| event.position.0).collect()
}

fn assert_in_order_of_seq(log: &[StoredEvent]) {
    let mut last: BTreeMap<JobId, EventSeq> = BTreeMap::new();
    for event in log {
        let before = last.insert(event.job, event.seq).unwrap_or(EventSeq(0));
        assert_eq!(event.seq, before.next());
    }
}

//! The server is killed while stores write, and restarts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use domain::{CommitError, Job, JobHistory, JobId, JobStore, Position, Revision, Scope, StoreError};
use parking_lot::Mutex;
use pgserver::{Flushes, for_test};
use store::conformance::sample::{cancelled, create, dispatched, granted, job, replace, seconds};
use store::{PostgresOptions, PostgresStore};
use tokio::task::JoinSet;

use super::{open, until};

const WRITERS: u32 = 8;

/// The acknowledged writes, and the signal to stop.
#[derive(Default)]
struct Promises {
    acknowledged: Mutex<BTreeMap<JobId, Revision>>,
    count: AtomicUsize,
    over: AtomicBool,
}

impl Promises {
    /// Writes until the outcome is known, as the protocol requires of a caller.
    async fn write(&self, postgres: &PostgresStore, unit: domain::Commit) {
        let (id, wanted) = (unit.job.id(), unit.expected.next());
        loop {
            match postgres.commit(vec![unit.clone()]).await.remove(0) {
                Ok(revision) => {
                    self.acknowledged.lock().insert(id, revision);
                    self.count.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(CommitError::Unknown) => {
                    let Ok(found) = postgres.job(id).await else { continue };
                    if found.map(|job| job.revision) == Some(wanted) {
                        return;
                    }
                }
                // A write whose response was lost and that could not be read back yet.
                Err(CommitError::Stale) => return,
                Err(CommitError::Store(StoreError::Unavailable(_))) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    async fn live(&self, postgres: &PostgresStore, first: Job) {
        let mut unit = create(first);
        for step in [|job| dispatched(job, seconds(9)), granted, cancelled] as [fn(Job) -> Job; 3] {
            let next = replace(step(unit.job.clone()), unit.expected.next());
            self.write(postgres, unit).await;
            unit = next;
        }
    }
}

// [I3] [D3]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_killed_server_keeps_acknowledged_writes_and_reconnects() {
    let Some(mut server) = for_test(Flushes::Real).unwrap() else { return };
    let postgres = Arc::new(open(&server.url(), PostgresOptions::default()).await);
    let promises = Arc::new(Promises::default());
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (postgres, promises) = (Arc::clone(&postgres), Arc::clone(&promises));
        writers.spawn(async move {
            for n in 0.. {
                if promises.over.load(Ordering::Relaxed) {
                    return;
                }
                promises.live(&postgres, job(n * WRITERS + writer)).await;
            }
        });
    }

    for _ in 0..3 {
        let before = promises.count.load(Ordering::Relaxed);
        until("acknowledgements", async || promises.count.load(Ordering::Relaxed) > before + 200).await;
        tokio::task::block_in_place(|| {
            server.kill();
            server.start().unwrap();
        });
    }
    let before = promises.count.load(Ordering::Relaxed);
    until("more of them", async || promises.count.load(Ordering::Relaxed) > before + 200).await;
    promises.over.store(true, Ordering::Relaxed);
    writers.join_all().await;

    let acknowledged = promises.acknowledged.lock().clone();
    for (id, promised) in acknowledged {
        let found = postgres.job(id).await.unwrap();
        assert!(found.is_some_and(|found| found.revision >= promised), "{id} at {promised}");
    }
    assert_without_gaps(&postgres).await;
}

async fn assert_without_gaps(postgres: &PostgresStore) {
    let mut after = Position(0);
    loop {
        let events = postgres.events(&Scope::Fleet, after, 10_000).await.unwrap();
        for event in &events {
            assert_eq!(event.position, after.next());
            after = event.position;
        }
        if events.is_empty() {
            break;
        }
    }
    assert_eq!(postgres.changed(Position(0)).await.unwrap(), after);
}

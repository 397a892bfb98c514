//! Positions follow the order of commits, across processes.

use std::sync::Arc;
use std::time::Duration;

use domain::{JobHistory, JobStore, Position, Scope};
use store::conformance::sample::{create, job};
use store::{PostgresOptions, PostgresStore};
use tokio::task::JoinSet;

use super::{Database, PATIENCE, SHARED, open, psql, until};

async fn log(postgres: &PostgresStore, after: u64) -> Vec<u64> {
    let events = postgres.events(&Scope::Fleet, Position(after), 1000).await.unwrap();
    events.iter().map(|event| event.position.0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn row_25_a_reader_misses_no_overlapping_transaction() {
    let Some(database) = Database::new() else { return };
    let postgres = Arc::new(database.another().await);
    let (slow, watcher) = (psql(&database).await, psql(&database).await);
    // Another coordinator has numbered its event and not committed it yet.
    slow.batch_execute(
        "BEGIN; UPDATE fleet_log SET pos = pos + 1, jobs = jobs + 1;
         INSERT INTO fleet_bodies (n, id, submission)
         SELECT jobs, '00000000-0000-0000-0000-000000000001', '{}' FROM fleet_log;
         INSERT INTO fleet_events (pos, job, seq, before, product, doc)
         SELECT pos, jobs, 1, 0, 'notes', '{}' FROM fleet_log",
    )
    .await
    .unwrap();

    let quick = tokio::task::JoinSet::from_iter([{
        let postgres = Arc::clone(&postgres);
        async move { postgres.commit(vec![create(job(1))]).await.remove(0).unwrap() }
    }]);
    until("a commit that waits for the other", async || {
        let sql = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        watcher.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0
    })
    .await;
    let before = log(&postgres, 0).await;
    slow.batch_execute("COMMIT").await.unwrap();
    quick.join_all().await;

    assert_eq!(before, [0_u64; 0]);
    assert_eq!(log(&postgres, 0).await, [1, 2]);
}

/// Two coordinators, eight writers each, three readers: each reader gets every event once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn row_25_two_racing_stores_write_one_log_without_gaps() {
    const WRITERS: u32 = 8;
    const JOBS: u32 = 40;
    const EVENTS: u64 = 2 * WRITERS as u64 * JOBS as u64;
    let Some(database) = Database::new() else { return };
    let options = PostgresOptions { look_every: Duration::from_millis(100), ..SHARED };
    let (one, two) = (Arc::new(open(&database.url(), options).await), Arc::new(open(&database.url(), options).await));
    let mut followers = JoinSet::new();
    for (store, limit) in [(&one, 7), (&two, 100), (&two, 1)] {
        let store = Arc::clone(store);
        followers.spawn(async move {
            let mut seen: Vec<u64> = Vec::new();
            while seen.len() < usize::try_from(EVENTS).unwrap() {
                let after = Position(seen.last().copied().unwrap_or(0));
                store.changed(after).await.unwrap();
                let events = store.events(&Scope::Fleet, after, limit).await.unwrap();
                seen.extend(events.iter().map(|event| event.position.0));
            }
            seen
        });
    }

    let mut writers = JoinSet::new();
    for writer in 0..2 * WRITERS {
        let store = Arc::clone(if writer % 2 == 0 { &one } else { &two });
        writers.spawn(async move {
            for n in 0..JOBS {
                store.commit(vec![create(job(writer * JOBS + n))]).await.remove(0).unwrap();
            }
        });
    }
    writers.join_all().await;

    let seen = tokio::time::timeout(PATIENCE, followers.join_all()).await.expect("the followers see everything");
    for seen in seen {
        assert_eq!(seen, (1..=EVENTS).collect::<Vec<_>>());
    }
}

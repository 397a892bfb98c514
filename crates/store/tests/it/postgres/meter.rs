//! Every database access is counted, waiting is not, and flushes are shared.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    Collection, Expected, FleetStore, JobFilter, JobHistory, JobStore, Position, Revision, Scope, StoreError,
};
use serde_json::json;
use store::Operations;
use store::conformance::sample::{create, id, job};
use tokio::task::JoinSet;

use super::Database;

// [D4]
#[tokio::test]
async fn each_operation_is_counted_by_its_kind() {
    let Some(database) = Database::new() else { return };
    let postgres = database.postgres().await;

    postgres.commit(vec![create(job(1)), create(job(1))]).await;
    postgres.put(Collection::Tokens, "t", Expected::Absent, Some(json!(1))).await.unwrap();
    postgres.job(id(1)).await.unwrap();
    postgres.open(None, 1).await.unwrap();
    postgres.dependents(id(1)).await.unwrap();
    postgres.body(id(1)).await.unwrap();
    postgres.jobs(&JobFilter::default(), None, 1).await.unwrap();
    postgres.events(&Scope::Fleet, Position(0), 1).await.unwrap();
    postgres.runs(id(1), 0, 1_000).await.unwrap();
    postgres.census().await.unwrap();
    postgres.document(Collection::Tokens, "t").await.unwrap();
    postgres.documents(Collection::Tokens).await.unwrap();

    let expected = Operations {
        job_reads: 1,
        sweep_reads: 2,
        history_reads: 4,
        document_reads: 2,
        transactions: 2,
        job_units: 2,
        document_units: 1,
        stale_units: 1,
        events: 1,
        index_steps: 0,
        // A slow test contains some.
        leadership_checks: postgres.operations().leadership_checks,
    };
    assert_eq!(postgres.operations(), expected);
}

// [I14]
#[tokio::test]
async fn waiting_for_a_change_counts_no_operation() {
    let Some(database) = Database::new() else { return };
    let postgres = database.postgres().await;

    let waited = tokio::time::timeout(Duration::from_millis(50), postgres.changed(Position(0))).await;

    assert!(waited.is_err());
    let counted = Operations { leadership_checks: 0, ..postgres.operations() };
    assert_eq!(counted, Operations::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_share_flushes() {
    const WRITERS: u32 = 64;
    const WRITES: u32 = 10;
    let Some(database) = Database::new() else { return };
    let postgres = Arc::new(database.postgres().await);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let postgres = Arc::clone(&postgres);
        writers.spawn(async move {
            for n in 0..WRITES {
                let outcome = postgres.commit(vec![create(job(writer * WRITES + n))]).await.remove(0);
                assert_eq!(outcome.unwrap(), Revision(1));
            }
        });
    }
    writers.join_all().await;

    let operations = postgres.operations();
    assert_eq!(operations.job_units, u64::from(WRITERS * WRITES));
    assert!(operations.transactions * 2 < operations.job_units, "{operations:?}");
}

#[tokio::test]
async fn close_writes_the_queue_and_rejects_later_calls() {
    let Some(database) = Database::new() else { return };
    let postgres = Arc::new(database.postgres().await);
    let mut last = JoinSet::new();
    for n in 0..20 {
        let postgres = Arc::clone(&postgres);
        last.spawn(async move { postgres.commit(vec![create(job(n))]).await.remove(0).is_ok() });
    }
    tokio::task::yield_now().await;

    postgres.close().await.unwrap();

    let written = last.join_all().await.into_iter().filter(|written| *written).count();
    let there = database.postgres().await.events(&Scope::Fleet, Position(0), 100).await.unwrap().len();
    assert_eq!(there, written);
    assert!(matches!(postgres.job(id(1)).await, Err(StoreError::Unavailable(_))));
    assert!(postgres.commit(vec![create(job(99))]).await.remove(0).is_err());
    assert!(matches!(postgres.changed(Position(0)).await, Ok(_) | Err(StoreError::Unavailable(_))));
}

//! Group commit: one flush serves all waiting callers.

use std::sync::Arc;

use domain::{JobStore, Revision};
use store::conformance::sample::{create, job};
use tokio::task::JoinSet;

use super::Database;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_share_flushes() {
    const WRITERS: u32 = 64;
    const WRITES: u32 = 10;
    let database = Database::new();
    let sqlite = Arc::new(database.sqlite());
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let sqlite = Arc::clone(&sqlite);
        writers.spawn(async move {
            for n in 0..WRITES {
                let outcome = sqlite.commit(vec![create(job(writer * WRITES + n))]).await.remove(0);
                assert_eq!(outcome.unwrap(), Revision(1));
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }

    let operations = sqlite.operations();
    assert_eq!(operations.job_units, u64::from(WRITERS * WRITES));
    assert!(operations.transactions * 2 < operations.job_units, "{operations:?}");
}

#[tokio::test]
async fn one_call_with_many_units_is_one_flush() {
    let database = Database::new();
    let sqlite = database.sqlite();

    let outcomes = sqlite.commit((0..500).map(|n| create(job(n))).collect()).await;

    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(sqlite.operations().transactions, 1);
}

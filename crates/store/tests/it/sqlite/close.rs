//! Closing and dropping a store.

use std::fs;

use domain::{CommitError, JobStore, Position, StoreError};
use store::conformance::sample::{create, id, job};

use super::Database;

#[tokio::test]
async fn a_closed_store_leaves_no_log_and_rejects_calls() {
    let database = Database::new();
    let sqlite = database.sqlite();
    sqlite.commit(vec![create(job(1))]).await.remove(0).unwrap();

    sqlite.close().await.unwrap();
    sqlite.close().await.unwrap();

    let mut files: Vec<_> = fs::read_dir(database.path().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["fleet.db", "fleet.db.lock", "fleet.db.record"]);
    assert!(matches!(sqlite.job(id(1)).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(sqlite.changed(Position(9)).await, Err(StoreError::Unavailable(_))));
    let late = sqlite.commit(vec![create(job(2))]).await;
    assert!(matches!(late[..], [Err(CommitError::Store(StoreError::Unavailable(_)))]), "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_queued_before_a_drop_are_written() {
    let database = Database::new();
    let sqlite = database.sqlite();
    for n in 0..200 {
        // Polled once, then dropped: the write is queued, but its caller is gone.
        let _ = tokio::time::timeout(std::time::Duration::ZERO, sqlite.commit(vec![create(job(n))])).await;
    }

    drop(sqlite);

    let sqlite = database.sqlite();
    assert_eq!(sqlite.open(None, 1000).await.unwrap().len(), 200);
}

#[tokio::test]
async fn a_running_read_does_not_block_the_writer() {
    let database = Database::new();
    let sqlite = database.sqlite();
    let reader = rusqlite::Connection::open(database.path()).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let seen = |reader: &rusqlite::Connection| {
        reader.query_row("SELECT count(*) FROM fleet_jobs", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(seen(&reader), 0);

    sqlite.commit(vec![create(job(1))]).await.remove(0).unwrap();

    assert_eq!(seen(&reader), 0);
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(seen(&reader), 1);
}

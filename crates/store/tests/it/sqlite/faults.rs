//! A full disk and a damaged row fail only the operations they affect, with a remedy.

use domain::{Body, CommitError, Expected, JobFilter, JobHistory, JobStore, Revision, StoreError};
use store::conformance::sample::{cancelled, create, id, job, replace};
use store::{Options, SqliteStore};

use super::Database;

// [row 37]
#[tokio::test]
async fn a_full_disk_rejects_the_write_and_loses_nothing() {
    let database = Database::new();
    let small = Options { pages_max: Some(60), ..Options::default() };
    let sqlite = SqliteStore::open(database.path(), small).unwrap();
    sqlite.commit(vec![create(job(0))]).await.remove(0).unwrap();
    let big = |n| job(n).commit_at(Expected::Absent, Some(Body("x".repeat(400_000).into())));

    let outcomes = sqlite.commit(vec![create(job(1)), big(2), create(job(3))]).await;

    let [Ok(Revision(1)), Err(CommitError::Store(StoreError::DiskFull(advice))), Ok(Revision(1))] = &outcomes[..]
    else {
        panic!("{outcomes:?}")
    };
    assert!(advice.contains("free space"), "{advice}");
    assert!(sqlite.job(id(2)).await.unwrap().is_none());
    sqlite.close().await.unwrap();
    let roomy = database.sqlite();
    assert_eq!(roomy.open(None, 10).await.unwrap().len(), 3);
    assert_eq!(roomy.commit(vec![big(2)]).await.remove(0).unwrap(), Revision(1));
}

// [row 9]
#[tokio::test]
async fn an_unreadable_row_fails_alone() {
    let database = Database::new();
    let sqlite = database.sqlite();
    sqlite.commit(vec![create(job(1)), create(job(2))]).await;
    let vandal = rusqlite::Connection::open(database.path()).unwrap();
    vandal.execute("UPDATE fleet_jobs SET state = '{}' WHERE id = ?1", [id(1).as_bytes()]).unwrap();

    let damaged = sqlite.job(id(1)).await;
    let sound = sqlite.job(id(2)).await.unwrap().unwrap();

    assert!(matches!(damaged, Err(StoreError::Corrupt(_))), "{damaged:?}");
    let outcome = sqlite.commit(vec![replace(cancelled(sound.value), sound.revision)]).await.remove(0);
    assert_eq!(outcome.unwrap(), Revision(2));
}

#[tokio::test]
async fn unreadable_jobs_are_skipped_among_open_jobs() {
    let database = Database::new();
    let sqlite = database.sqlite();
    sqlite.commit((1..=5).map(|n| create(job(n))).collect()).await;
    let vandal = rusqlite::Connection::open(database.path()).unwrap();
    for n in [1, 2, 4] {
        vandal.execute("UPDATE fleet_jobs SET state = '{}' WHERE id = ?1", [id(n).as_bytes()]).unwrap();
    }

    let first = sqlite.open(None, 2).await.unwrap();
    let second = sqlite.open(first.last().map(|job| job.value.id()), 2).await.unwrap();
    let end = sqlite.open(second.last().map(|job| job.value.id()), 2).await.unwrap();

    let ids = |page: &[domain::Versioned<domain::Job>]| page.iter().map(|job| job.value.id()).collect::<Vec<_>>();
    assert_eq!((ids(&first), ids(&second), ids(&end)), (vec![id(3)], vec![id(5)], vec![]));
}

// [row 37]
#[tokio::test]
async fn an_unreadable_job_is_skipped_in_lists_and_reported() {
    let database = Database::new();
    let sqlite = database.sqlite();
    sqlite.commit((1..=5).map(|n| create(job(n))).collect()).await;
    let vandal = rusqlite::Connection::open(database.path()).unwrap();
    for n in [2, 3, 5] {
        vandal.execute("UPDATE fleet_jobs SET state = 'torn' WHERE id = ?1", [id(n).as_bytes()]).unwrap();
    }

    let first = sqlite.jobs(&JobFilter::default(), None, 1).await.unwrap();
    let second = sqlite.jobs(&JobFilter::default(), first.next.clone(), 1).await.unwrap();
    let named: Vec<_> = sqlite.unreadable().into_iter().map(|found| (found.collection, found.key)).collect();
    vandal.execute("DELETE FROM fleet_runs", []).unwrap();
    let repaired = "UPDATE fleet_jobs SET state = (SELECT state FROM fleet_jobs WHERE id = ?2) WHERE id = ?1";
    vandal.execute(repaired, [id(5).as_bytes(), id(4).as_bytes()]).unwrap();
    sqlite.job(id(5)).await.unwrap();

    let ids = |page: &domain::Page<domain::Summary>| page.items.iter().map(|item| item.job.id()).collect::<Vec<_>>();
    assert_eq!((ids(&first), ids(&second)), (vec![id(4)], vec![id(1)]));
    let mut expected = [2, 3, 5].map(|n| ("fleet_jobs", id(n).to_string()));
    expected.sort();
    assert_eq!(named, expected);
    assert_eq!(sqlite.unreadable().len(), 2, "one that can be read again is forgotten");
}

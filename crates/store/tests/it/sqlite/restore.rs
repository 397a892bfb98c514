//! A restore replaces the database with the backup, keeps the old one, and survives a crash at any step.

use std::fs;
use std::path::{Path, PathBuf};

use domain::{Backup, Collection, FleetStore, Generation, JobStore, StoreGeneration};
use store::conformance::sample::{create, id, job, seconds};
use store::{BackupError, Options, RestoreOutcome, SqliteStore, inspect_backup, restore_closed, stage_restore};

use super::Database;

/// A closed database with jobs 1 and 2, and a backup from when there was only job 1.
async fn with_backup(database: &Database) -> PathBuf {
    let backup = database.path().with_file_name("backup");
    let sqlite = database.sqlite();
    sqlite.commit(vec![create(job(1))]).await.remove(0).unwrap();
    sqlite.back_up(&backup, seconds(1)).await.unwrap();
    sqlite.commit(vec![create(job(2))]).await.remove(0).unwrap();
    sqlite.close().await.unwrap();
    backup
}

async fn has_job(path: &Path, n: u32) -> bool {
    let sqlite = SqliteStore::open(path, Options::default()).unwrap();
    let found = sqlite.job(id(n)).await.unwrap().is_some();
    sqlite.close().await.unwrap();
    found
}

async fn lineage(sqlite: &SqliteStore) -> StoreGeneration {
    let document = sqlite.document(Collection::Meta, StoreGeneration::KEY).await.unwrap().unwrap();
    serde_json::from_value(document.value).unwrap()
}

// [§12]
#[tokio::test]
async fn a_restore_returns_the_backup_and_keeps_the_old_database() {
    let database = Database::new();
    let backup = with_backup(&database).await;

    let restored = restore_closed(&backup, &database.path(), seconds(2)).unwrap();

    let kept = restored.kept.clone().unwrap();
    let summary = inspect_backup(&backup).unwrap();
    let expected = RestoreOutcome { backup: summary, generation: Generation(1), kept: Some(kept.clone()) };
    assert_eq!(restored, expected);
    assert_eq!((has_job(&database.path(), 1).await, has_job(&database.path(), 2).await), (true, false));
    assert_eq!((has_job(&kept, 1).await, has_job(&kept, 2).await), (true, true));
    let expected =
        StoreGeneration { generation: Generation(1), restored_at: Some(seconds(2)), as_of: Some(seconds(1)) };
    assert_eq!(lineage(&database.sqlite()).await, expected);
}

#[tokio::test]
async fn every_restore_starts_a_new_generation() {
    let database = Database::new();
    let backup = with_backup(&database).await;

    let first = restore_closed(&backup, &database.path(), seconds(2)).unwrap().generation;
    let second = restore_closed(&backup, &database.path(), seconds(3)).unwrap().generation;
    let sqlite = database.sqlite();
    let later = database.path().with_file_name("later");
    let carried = sqlite.back_up(&later, seconds(4)).await.unwrap().generation;
    let elsewhere = Database::new();
    let third = restore_closed(&later, &elsewhere.path(), seconds(5)).unwrap().generation;

    assert_eq!([first, second, carried, third], [1, 2, 2, 3].map(Generation));
}

#[tokio::test]
async fn a_restore_works_without_an_old_database() {
    let database = Database::new();
    let backup = with_backup(&database).await;
    let empty = Database::new();

    let restored = restore_closed(&backup, &empty.path(), seconds(2)).unwrap();

    assert_eq!(restored.kept, None);
    assert!(has_job(&empty.path(), 1).await);
}

#[tokio::test]
async fn a_file_that_is_not_a_backup_changes_nothing() {
    let database = Database::new();
    with_backup(&database).await;
    let before = fs::read(database.path()).unwrap();
    let notes = database.path().with_file_name("notes");
    fs::write(&notes, "another user's notes, long enough not to be a header of anything").unwrap();

    let outcome = restore_closed(&notes, &database.path(), seconds(2));

    assert!(matches!(outcome, Err(BackupError::NotABackup { .. })), "{outcome:?}");
    assert_eq!(fs::read(database.path()).unwrap(), before);
    assert!(has_job(&database.path(), 2).await);
}

#[tokio::test]
async fn a_database_in_use_is_not_replaced() {
    let database = Database::new();
    let backup = with_backup(&database).await;
    let sqlite = database.sqlite();

    let outcome = restore_closed(&backup, &database.path(), seconds(2));

    assert!(matches!(outcome, Err(BackupError::Open(store::OpenError::InUse { .. }))), "{outcome:?}");
    assert!(sqlite.job(id(2)).await.unwrap().is_some());
}

/// A crash after each step, simulated by its files; the store was killed too, so its log still exists.
// [§12]
#[tokio::test]
async fn a_crash_at_any_step_leaves_the_old_store_or_the_new_one() {
    for steps_done in 0..5 {
        let database = Database::new();
        let backup = with_backup(&database).await;
        let path = database.path();
        let beside = |suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
        let kept = beside(".before-generation-1");
        // A store that is not closed leaves its last commits in the log.
        let left_open = rusqlite::Connection::open(&path).unwrap();
        left_open.execute_batch("CREATE TABLE in_the_log (x)").unwrap();
        let log = fs::read(beside("-wal")).unwrap();
        drop(left_open);
        fs::write(beside("-wal"), log).unwrap();

        let incoming = beside(".incoming");
        fs::copy(&backup, &incoming).unwrap();
        if steps_done >= 1 {
            stage_restore(&incoming, &path, Some(Generation(0)), seconds(2)).unwrap();
        }
        if steps_done >= 2 {
            fs::rename(beside("-wal"), format!("{}-wal", kept.display())).unwrap();
        }
        if steps_done >= 3 {
            fs::rename(&path, &kept).unwrap();
        }
        if steps_done >= 4 {
            fs::rename(beside(".restoring"), &path).unwrap();
        }

        let is_new = steps_done >= 1;
        assert!(has_job(&path, 1).await, "after {steps_done} steps");
        assert_eq!(has_job(&path, 2).await, !is_new, "after {steps_done} steps");
        assert_eq!(kept.exists(), is_new, "after {steps_done} steps");
        if is_new {
            assert!(has_job(&kept, 2).await, "after {steps_done} steps");
            let old = rusqlite::Connection::open(&kept).unwrap();
            assert!(old.prepare("SELECT x FROM in_the_log").is_ok(), "after {steps_done} steps");
            let new = rusqlite::Connection::open(&path).unwrap();
            assert!(new.prepare("SELECT x FROM in_the_log").is_err(), "after {steps_done} steps");
        }
    }
}

#[tokio::test]
async fn a_replaced_database_is_restorable_only_with_its_log() {
    let database = Database::new();
    let backup = with_backup(&database).await;
    let kept = restore_closed(&backup, &database.path(), seconds(2)).unwrap().kept.unwrap();
    let log = PathBuf::from(format!("{}-wal", kept.display()));
    fs::write(&log, "changes").unwrap();

    let without_its_log = restore_closed(&kept, &database.path(), seconds(3));
    fs::remove_file(&log).unwrap();
    let undone = restore_closed(&kept, &database.path(), seconds(3)).unwrap();

    assert!(matches!(without_its_log, Err(BackupError::NotABackup { .. })), "{without_its_log:?}");
    assert_eq!((undone.generation, undone.backup.taken_at), (Generation(2), None));
    assert!(has_job(&database.path(), 2).await);
}

//! A backup is one snapshot of the store, whatever is written meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use domain::{Backup, Generation, Job, JobHistory, JobId, JobStore, Position, Revision, Scope, StageName};
use store::conformance::sample::{cancelled, create, dispatched, granted, job, replace, seconds};
use store::{BackupError, SqliteStore, back_up_closed, inspect_backup, restore_closed};
use tokio::task::JoinSet;

use super::Database;

const WRITERS: u32 = 4;

/// Takes jobs through their stages until cancelled.
async fn keep_writing(sqlite: &SqliteStore, writer: u32, stop: tokio_util::sync::CancellationToken) {
    for n in (writer..).step_by(WRITERS as usize) {
        let mut unit = create(job(n));
        for step in [|job| dispatched(job, seconds(9)), granted, cancelled] as [fn(Job) -> Job; 3] {
            if stop.is_cancelled() {
                return;
            }
            let job = unit.job.clone();
            let revision = sqlite.commit(vec![unit]).await.remove(0).unwrap();
            unit = replace(step(job), revision);
        }
        sqlite.commit(vec![unit]).await.remove(0).unwrap();
    }
}

/// Checks that jobs, events and counts agree.
async fn assert_consistent(sqlite: &SqliteStore) -> u64 {
    let mut events: BTreeMap<JobId, u64> = BTreeMap::new();
    let mut end = Position(0);
    loop {
        let page = sqlite.events(&Scope::Fleet, end, 1_000).await.unwrap();
        let Some(last) = page.last() else { break };
        end = last.position;
        for event in &page {
            let seq = events.entry(event.job).or_default();
            assert_eq!(event.seq.0, *seq + 1, "a job's events have no gaps");
            *seq = event.seq.0;
        }
    }
    assert_eq!(events.values().sum::<u64>(), end.0, "positions have no gaps");
    let mut stages: BTreeMap<StageName, u64> = BTreeMap::new();
    for (id, seq) in &events {
        let found = sqlite.job(*id).await.unwrap().expect("a job with events is there");
        assert_eq!((found.value.seq().0, found.revision), (*seq, Revision(*seq)));
        assert!(sqlite.body(*id).await.unwrap().is_some());
        *stages.entry(found.value.stage().name()).or_default() += 1;
    }
    let census: BTreeMap<_, _> =
        sqlite.census().await.unwrap().into_iter().map(|(_, stage, count)| (stage, count)).collect();
    assert_eq!(census, stages);
    events.len() as u64
}

// [§12]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_during_writes_is_consistent() {
    let database = Database::new();
    let sqlite = Arc::new(database.sqlite());
    let stop = tokio_util::sync::CancellationToken::new();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (sqlite, stop) = (Arc::clone(&sqlite), stop.clone());
        writers.spawn(async move { keep_writing(&sqlite, writer, stop).await });
    }
    let folder = database.path().parent().unwrap().to_owned();
    let mut ends = Vec::new();

    for n in 0..5 {
        sqlite.changed(Position(ends.last().map_or(50, |end: &Position| end.0 + 50))).await.unwrap();
        let summary = sqlite.back_up(&folder.join(format!("copy-{n}")), seconds(n)).await.unwrap();
        ends.push(summary.position);
    }
    stop.cancel();
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }

    assert!(ends.windows(2).all(|pair| pair[0] < pair[1]), "the writers stood still: {ends:?}");
    for n in 0..5 {
        let copy = folder.join(format!("copy-{n}"));
        let summary = inspect_backup(&copy).unwrap();
        let other = Database::new();
        restore_closed(&copy, &other.path(), seconds(99)).unwrap();
        let restored = other.sqlite();
        assert_eq!(assert_consistent(&restored).await, summary.jobs);
        assert_eq!(summary.taken_at, Some(seconds(n)));
    }
}

// [§12] [attack: secrets in logs, events, artifacts]
#[tokio::test]
async fn a_backup_has_a_summary_and_is_private() {
    let database = Database::new();
    let sqlite = database.sqlite();
    sqlite.commit(vec![create(job(1)), create(job(2)), create(cancelled(job(3)))]).await;
    let copy = database.path().with_file_name("copy");

    let summary = sqlite.back_up(&copy, seconds(7)).await.unwrap();

    assert_eq!((summary.jobs, summary.open, summary.events, summary.position), (3, 2, 4, Position(4)));
    assert_eq!((summary.generation, summary.schema, summary.taken_at), (Generation(0), 5, Some(seconds(7))));
    assert_eq!(summary.bytes, fs::metadata(&copy).unwrap().len());
    assert_eq!(inspect_backup(&copy).unwrap(), summary);
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&copy).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let beside: Vec<_> = fs::read_dir(database.path().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("copy"))
        .collect();
    assert_eq!(beside, ["copy"], "a backup is one file");
}

#[tokio::test]
async fn a_backup_overwrites_nothing() {
    let database = Database::new();
    let sqlite = database.sqlite();
    let taken = database.path().with_file_name("copy");
    fs::write(&taken, "another user's notes").unwrap();

    let outcome = sqlite.back_up(&taken, seconds(1)).await;

    assert!(outcome.is_err());
    assert_eq!(fs::read_to_string(&taken).unwrap(), "another user's notes");
}

#[tokio::test]
async fn only_a_closed_database_can_be_backed_up_offline() {
    let database = Database::new();
    let copy = database.path().with_file_name("copy");
    assert!(matches!(back_up_closed(&database.path(), &copy, seconds(1)), Err(BackupError::NoDatabase(_))));
    let sqlite = database.sqlite();
    sqlite.commit(vec![create(job(1))]).await.remove(0).unwrap();

    let while_open = back_up_closed(&database.path(), &copy, seconds(1));
    sqlite.close().await.unwrap();
    let summary = back_up_closed(&database.path(), &copy, seconds(1)).unwrap();

    assert!(matches!(while_open, Err(BackupError::Open(store::OpenError::InUse { .. }))), "{while_open:?}");
    assert_eq!((summary.jobs, summary), (1, inspect_backup(&copy).unwrap()));
}

// [§12]
#[tokio::test]
async fn a_foreign_or_damaged_backup_is_detected() {
    let database = Database::new();
    let sqlite = database.sqlite();
    for n in 0..200 {
        sqlite.commit(vec![create(job(n))]).await.remove(0).unwrap();
    }
    let folder = database.path().parent().unwrap().to_owned();
    let good = folder.join("good");
    sqlite.back_up(&good, seconds(1)).await.unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let bytes = fs::read(&good).unwrap();
    let mut torn = bytes.clone();
    let middle = torn.len() / 2;
    torn[middle..middle + 8_192].fill(0xa5);
    let foreign = folder.join("foreign");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    let laced = ["t", "sqliteevil"].map(|name| {
        let (laced, act) = (folder.join(name), "AFTER INSERT ON fleet_documents BEGIN DELETE FROM fleet_events; END");
        fs::copy(&good, &laced).unwrap();
        rusqlite::Connection::open(&laced).unwrap().execute_batch(&format!("CREATE TRIGGER {name} {act}")).unwrap();
        laced
    });
    let lost = folder.join("lost");
    fs::copy(&good, &lost).unwrap();
    rusqlite::Connection::open(&lost)
        .unwrap()
        .execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM fleet_jobs WHERE n = 3")
        .unwrap();

    let is_no_backup = |path: &std::path::Path| matches!(inspect_backup(path), Err(BackupError::NotABackup { .. }));
    assert!(is_no_backup(&file("notes", b"another user's notes, long enough not to be a header of anything")));
    assert!(is_no_backup(&file("empty", b"")));
    assert!(is_no_backup(&foreign));
    assert!(laced.iter().all(|laced| is_no_backup(laced)));
    let is_damaged = |path: &std::path::Path| matches!(inspect_backup(path), Err(BackupError::Damaged { .. }));
    assert!(is_damaged(&file("torn", &torn)));
    assert!(is_damaged(&file("cut", &bytes[..bytes.len() / 2])));
    assert!(is_damaged(&lost));
    assert!(matches!(inspect_backup(&folder.join("nowhere")), Err(BackupError::Files { .. })));
}

//! A store that lost acknowledged work is detected (row 37).

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use domain::{Collection, FleetStore, Generation, JobStore, Position, Timestamp};
use store::conformance::sample::{create, job};
use store::{DataLoss, OpenError, Options, SqliteStore, read_record, record_path, restore_closed};

use super::Database;

/// After a clean start: later than any generation of the tests.
const ACCEPTED: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn loss(path: &Path) -> DataLoss {
    match SqliteStore::open(path, Options::default()) {
        Err(OpenError::DataLoss(loss)) => loss,
        other => panic!("it was not refused for a loss: {:?}", other.map(|_| "opened")),
    }
}

/// Opens the store with the loss accepted; returns its generation.
async fn accepted(path: &Path) -> (SqliteStore, Generation) {
    let sqlite = SqliteStore::open(path, Options { accept_data_loss: Some(ACCEPTED), ..Options::default() }).unwrap();
    let lineage = sqlite.document(Collection::Meta, "lineage").await.unwrap();
    let generation = lineage.map_or(0, |lineage| lineage.value["generation"].as_u64().unwrap());
    (sqlite, Generation(generation))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Copies the files of a database as a killed process leaves them.
fn copy_as_killed(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    for suffix in ["", "-wal", ".record"] {
        fs::copy(beside(from, suffix), beside(to, suffix)).unwrap();
    }
}

async fn fill(sqlite: &SqliteStore, jobs: std::ops::Range<u16>) {
    for n in jobs {
        sqlite.commit(vec![create(job(n.into()))]).await.remove(0).unwrap();
    }
}

// [row 37]
#[tokio::test]
async fn every_acknowledged_commit_is_in_the_record() {
    let database = Database::new();
    let sqlite = database.sqlite();

    for n in 1..=5 {
        fill(&sqlite, n..n + 1).await;
        let record = read_record(&record_path(&database.path())).unwrap().unwrap();
        assert_eq!((record.position, record.clean), (Position(n.into()), None));
    }

    sqlite.close().await.unwrap();
    let closed = read_record(&record_path(&database.path())).unwrap().unwrap();
    assert_eq!(closed.clean.map(|stamp| stamp.len), Some(fs::metadata(database.path()).unwrap().len()));
}

// [row 37]
#[tokio::test]
async fn a_truncated_log_is_refused_until_it_is_accepted() {
    let database = Database::new();
    let sqlite = database.sqlite();
    fill(&sqlite, 1..30).await;
    let killed = database.path().with_file_name("killed").join("fleet.db");
    copy_as_killed(&database.path(), &killed);
    let log = OpenOptions::new().write(true).open(beside(&killed, "-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() * 2 / 3).unwrap();

    let refused = loss(&killed);
    let again = loss(&killed);
    let (opened, generation) = accepted(&killed).await;
    let left = opened.open(None, 100).await.unwrap().len();
    opened.close().await.unwrap();
    let (once_more, same) = accepted(&killed).await;

    assert!(refused.what.contains("end of the log"), "{refused}");
    assert!(refused.expected.contains("log position 29"), "{refused}");
    assert_eq!(refused, again, "a refused start changes nothing");
    assert!((1..29).contains(&left), "{left}");
    assert!(generation > Generation(0));
    assert_eq!(same, generation, "nothing was lost since: nothing is accepted");
    drop(once_more);
}

// [row 37]
#[tokio::test]
async fn a_missing_or_empty_database_is_refused() {
    for is_emptied in [false, true] {
        let database = Database::new();
        let path = database.path();
        let sqlite = database.sqlite();
        fill(&sqlite, 1..4).await;
        sqlite.close().await.unwrap();
        match is_emptied {
            true => drop(fs::File::create(&path).unwrap()),
            false => fs::remove_file(&path).unwrap(),
        }

        let refused = loss(&path);
        let is_there = path.exists();
        let (opened, generation) = accepted(&path).await;

        assert!(refused.what.contains("is missing"), "{refused}");
        assert_eq!(is_there, is_emptied, "a refused start creates nothing");
        assert!(opened.open(None, 10).await.unwrap().is_empty());
        assert!(generation > Generation(0));
    }
}

// [row 37]
#[tokio::test]
async fn another_stores_database_is_refused() {
    let (ours, theirs) = (Database::new(), Database::new());
    for (database, jobs) in [(&ours, 1..3), (&theirs, 1..9)] {
        let sqlite = database.sqlite();
        fill(&sqlite, jobs).await;
        sqlite.close().await.unwrap();
    }
    fs::copy(theirs.path(), ours.path()).unwrap();

    let refused = loss(&ours.path());

    assert!(refused.what.contains("another store's"), "{refused}");
    let (_, generation) = accepted(&ours.path()).await;
    assert!(generation > Generation(0));
}

// [row 37]
#[tokio::test]
async fn an_older_copy_is_refused_and_a_restored_one_is_not() {
    let database = Database::new();
    let (path, older) = (database.path(), database.path().with_file_name("older.db"));
    let sqlite = database.sqlite();
    fill(&sqlite, 1..4).await;
    sqlite.close().await.unwrap();
    fs::copy(&path, &older).unwrap();
    let sqlite = database.sqlite();
    fill(&sqlite, 4..6).await;
    sqlite.close().await.unwrap();
    fs::copy(&older, &path).unwrap();

    let refused = loss(&path);
    restore_closed(&older, &path, ACCEPTED).unwrap();
    let restored = database.sqlite();

    assert!(refused.what.contains("older copy"), "{refused}");
    assert_eq!(restored.open(None, 10).await.unwrap().len(), 3);
    let record = read_record(&record_path(&path)).unwrap().unwrap();
    assert_eq!((record.position, record.generation > Generation(0)), (Position(3), true));
    restored.close().await.unwrap();

    fs::copy(&older, &path).unwrap();
    let refused = loss(&path);
    assert!(refused.what.contains("before the last restore"), "{refused}");
}

// [row 37]
#[tokio::test]
async fn a_store_without_a_record_gets_one() {
    let database = Database::new();
    let path = database.path();
    let sqlite = database.sqlite();
    fill(&sqlite, 1..3).await;
    sqlite.close().await.unwrap();
    fs::remove_file(record_path(&path)).unwrap();
    let former = rusqlite::Connection::open(&path).unwrap();
    former.execute("DELETE FROM fleet_documents WHERE key = 'store'", []).unwrap();
    former.close().unwrap();

    let opened = database.sqlite();

    assert!(!opened.opening().is_new);
    let record = read_record(&record_path(&path)).unwrap().unwrap();
    assert_eq!((record.position, record.generation, record.store_id.len()), (Position(2), Generation(0), 32));
}

// [row 37]
#[tokio::test]
async fn a_zeroed_page_is_found_by_the_check() {
    const PAGE: usize = 4096;
    let database = Database::new();
    let path = database.path();
    let sqlite = database.sqlite();
    fill(&sqlite, 1..200).await;
    sqlite.close().await.unwrap();
    let sound = database.sqlite();
    let (untouched, nothing) = (sound.opening().is_untouched, sound.check().await.unwrap());
    sound.close().await.unwrap();
    // A page with jobs only: not one with the schema or the documents that a start reads.
    let mut bytes = fs::read(&path).unwrap();
    let title = b"\"title\"";
    let page = (2..bytes.len() / PAGE)
        .find(|page| bytes[page * PAGE..(page + 1) * PAGE].windows(title.len()).any(|text| text == title))
        .unwrap();
    bytes[page * PAGE..(page + 1) * PAGE].fill(0);
    fs::write(&path, bytes).unwrap();

    let damaged = database.sqlite();
    let found = damaged.check().await.unwrap();

    assert_eq!((untouched, nothing), (true, None));
    assert!(!damaged.opening().is_untouched);
    assert!(found.is_some_and(|found| found.starts_with("fleet_")));
    drop(damaged);
    assert!(store::check_closed(&path).unwrap().is_some());
}

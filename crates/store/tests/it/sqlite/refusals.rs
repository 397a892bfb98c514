//! Foreign files are refused with a remedy, and not changed.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use store::{OpenError, Options, SqliteStore};

use super::Database;

fn refused(path: &Path) -> OpenError {
    SqliteStore::open(path, Options::default()).expect_err("refused")
}

/// The contents of the file and of its log, if it has one.
fn bytes(path: &Path) -> [Option<Vec<u8>>; 2] {
    let wal = PathBuf::from(format!("{}-wal", path.display()));
    [fs::read(path).ok(), fs::read(wal).ok()]
}

/// A cleanly closed database.
async fn closed(database: &Database) -> PathBuf {
    let sqlite = database.sqlite();
    sqlite.close().await.unwrap();
    database.path()
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet?#%.db");
    (folder, path)
}

#[test]
fn a_file_that_is_not_a_database_is_refused() {
    for content in [&b"hello"[..], &[0; 4096], &b"SQLite format 3"[..], &[b'x'; 10_000]] {
        let (_folder, path) = folder();
        fs::write(&path, content).unwrap();

        let error = refused(&path);

        assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
        assert!(error.to_string().contains("choose another data directory"), "{error}");
        assert_eq!(bytes(&path), [Some(content.to_vec()), None]);
    }
}

#[test]
fn another_programs_database_is_refused_unchanged() {
    for mark in ["SELECT 1", "PRAGMA application_id = 7", "PRAGMA journal_mode = WAL"] {
        let (_folder, path) = folder();
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(&format!("{mark}; CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")).unwrap();
        drop(connection);
        let before = bytes(&path);

        let error = refused(&path);

        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        assert_eq!(bytes(&path), before);
    }
}

// [§9]
#[tokio::test]
async fn a_newer_schema_is_refused_unchanged() {
    let database = Database::new();
    let path = closed(&database).await;
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 999").unwrap();
    let before = bytes(&path);

    let error = refused(&path);

    assert!(matches!(error, OpenError::Newer { found: 999, known: 5, .. }), "{error}");
    assert!(error.to_string().contains("use the newer version"), "{error}");
    assert_eq!(bytes(&path), before);
}

#[tokio::test]
async fn a_newer_schema_in_the_log_is_refused_unchanged() {
    let database = Database::new();
    let path = closed(&database).await;
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA user_version = 999").unwrap();
    // A copy taken while the log is not empty equals what a crash leaves.
    let crashed = path.with_file_name("crashed.db");
    for suffix in ["", "-wal"] {
        fs::copy(format!("{}{suffix}", path.display()), format!("{}{suffix}", crashed.display())).unwrap();
    }
    let before = bytes(&crashed);
    assert!(before[1].as_ref().is_some_and(|wal| !wal.is_empty()));

    let error = refused(&crashed);

    assert!(matches!(error, OpenError::Newer { found: 999, .. }), "{error}");
    assert_eq!(bytes(&crashed), before);
}

#[tokio::test]
async fn a_damaged_database_is_refused_unchanged() {
    let truncate = |content: &mut Vec<u8>| content.truncate(5000);
    let scramble = |content: &mut Vec<u8>| content[100..4000].fill(0xa5);
    for damage in [truncate as fn(&mut Vec<u8>), scramble] {
        let database = Database::new();
        let path = closed(&database).await;
        let mut content = fs::read(&path).unwrap();
        damage(&mut content);
        fs::write(&path, &content).unwrap();

        let error = refused(&path);

        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("restore a backup"), "{error}");
        assert_eq!(bytes(&path), [Some(content), None]);
    }
}

#[test]
fn a_log_without_its_database_is_not_deleted() {
    let (_folder, path) = folder();
    let wal = PathBuf::from(format!("{}-wal", path.display()));
    fs::write(&wal, "the only copy").unwrap();

    let error = refused(&path);

    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert_eq!(bytes(&path), [None, Some(b"the only copy".to_vec())]);
}

#[test]
fn a_second_open_is_refused_and_names_the_holder() {
    let database = Database::new();
    let first = database.sqlite();

    let error = refused(&database.path());
    drop(first);
    let second = SqliteStore::open(database.path(), Options::default());

    let pid = std::process::id();
    assert!(matches!(error, OpenError::InUse { holder: Some(holder), .. } if holder == pid), "{error}");
    assert!(error.to_string().contains(&pid.to_string()), "{error}");
    assert!(second.is_ok());
}

#[test]
fn an_empty_database_left_by_a_crash_is_used() {
    let (_folder, path) = folder();
    Connection::open(&path).unwrap().execute_batch("PRAGMA journal_mode = WAL; PRAGMA user_version = 0").unwrap();

    assert!(SqliteStore::open(&path, Options::default()).is_ok());
}

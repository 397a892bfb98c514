//! The settings that durability depends on are effective, and the files are private.

use std::fs;

use domain::JobStore;
use store::Settings;
use store::conformance::sample::{create, job};

use super::Database;

// [D3]
#[test]
fn every_connection_uses_wal_and_full_synchronous() {
    let database = Database::new();

    let sqlite = database.sqlite();

    let writer = Settings {
        journal_mode: "wal".to_owned(),
        synchronous: 2,
        foreign_keys: true,
        busy_timeout_ms: 5000,
        query_only: false,
    };
    let reader = Settings { query_only: true, ..writer.clone() };
    assert_eq!(sqlite.settings(), [writer, reader.clone(), reader.clone(), reader.clone(), reader]);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let database = Database::new();
    let sqlite = database.sqlite();
    sqlite.commit(vec![create(job(1))]).await.remove(0).unwrap();
    let folder = database.path().parent().unwrap().to_owned();

    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), mode(&entry.path())))
        .collect();
    files.sort();

    assert_eq!(mode(&folder), 0o700);
    assert_eq!(
        files,
        ["fleet.db", "fleet.db-shm", "fleet.db-wal", "fleet.db.lock", "fleet.db.record"]
            .map(|name| (name.to_owned(), 0o600))
    );
}

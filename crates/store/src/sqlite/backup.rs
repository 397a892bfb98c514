//! Online backup: one consistent file, copied while the writer continues.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use async_trait::async_trait;
use domain::{Backup, BackupSummary, Collection, Generation, Position, StoreError, StoreGeneration, Timestamp};
use rusqlite::backup::{Backup as Copying, StepResult};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::backup_error::BackupError;
use super::connection::{self, Role};
use super::errors::closed;
use super::evidence;
use super::inspect::{escaped, with_suffix};
use super::lock::DirectoryLock;
use super::row::counter;
use super::schema::{self, APPLICATION_ID};
use super::{Options, SqliteStore, restore};
use crate::private;

/// Pages copied per step: 16 MiB, so that a shutdown is not delayed for long.
const PAGES_PER_STEP: i32 = 4_096;

/// A backup's metadata, stored as a document in it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BackupLabel {
    taken_at: Timestamp,
}

/// The key of the label in [`Collection::Meta`].
pub(crate) const LABEL_KEY: &str = "backup";

#[async_trait]
impl Backup for SqliteStore {
    async fn back_up(&self, path: &Path, now: Timestamp) -> Result<BackupSummary, StoreError> {
        let (from, to) = (self.path.clone(), path.to_owned());
        let copying = tokio::task::spawn_blocking(move || {
            let (source, _) = connection::connect(&from, Role::Reader, Options::default())?;
            copy(&source, &to, now)
        });
        Ok(copying.await.map_err(|_| closed())??)
    }
}

/// Copies a closed database into a new file at `to`.
pub fn back_up_closed(database: &Path, to: &Path, now: Timestamp) -> Result<BackupSummary, BackupError> {
    if !database.exists() && !restore::is_staged(database) {
        return Err(BackupError::NoDatabase(database.to_owned()));
    }
    let _lock = DirectoryLock::take(database)?;
    restore::finish(database)?;
    super::inspect::inspect(database)?;
    let (source, _) = connection::connect(database, Role::Writer, Options::default())?;
    copy(&source, to, now)
}

/// Checks that a file is a consistent backup, and summarises its content. Changes nothing.
pub fn inspect_backup(path: &Path) -> Result<BackupSummary, BackupError> {
    // SQLite would open a missing or empty file as a database without tables.
    let bytes = fs::metadata(path).map_err(BackupError::files(path))?.len();
    if bytes == 0 {
        return Err(BackupError::NotABackup { path: path.to_owned(), why: "it is empty".to_owned() });
    }
    let log = with_suffix(path, "-wal");
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        let why = "its last changes are still in its write-ahead log: run `PRAGMA wal_checkpoint(TRUNCATE)` on it";
        return Err(BackupError::NotABackup { path: path.to_owned(), why: why.to_owned() });
    }
    let connection = open_unchanged(path).map_err(BackupError::sqlite(path))?;
    let summary = check(&connection, path)?;
    let sha256 = digest(path).map_err(BackupError::files(path))?;
    Ok(BackupSummary { bytes, sha256, ..summary })
}

/// Copies the snapshot that `source` sees now. Later writes are not included.
fn copy(source: &Connection, to: &Path, now: Timestamp) -> Result<BackupSummary, BackupError> {
    private::file().write(true).create_new(true).open(to).map_err(BackupError::files(to))?;
    let copied = copy_pages(source, to).and_then(|()| seal(to, now));
    if copied.is_err() {
        // Remove a partial copy: it is unusable, and the next attempt needs its name.
        let _ = fs::remove_file(to);
    }
    copied
}

fn copy_pages(source: &Connection, to: &Path) -> Result<(), BackupError> {
    let wrong = |error| BackupError::sqlite(to)(error);
    let mut target = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(wrong)?;
    target.pragma_update(None, "synchronous", "OFF").map_err(wrong)?;
    // An open transaction pins the snapshot: without it every write would restart the copy.
    source.execute_batch("BEGIN").map_err(wrong)?;
    source.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(wrong)?;
    let copying = Copying::new(source, &mut target).map_err(wrong)?;
    loop {
        match copying.step(PAGES_PER_STEP).map_err(wrong)? {
            StepResult::Done => break,
            // The target has no other user and WAL readers never block: the lock is free at the next attempt.
            _ => std::thread::yield_now(),
        }
    }
    drop(copying);
    source.execute_batch("COMMIT").map_err(wrong)
}

/// Completes a backup: one file without a write-ahead log, labelled, checked and flushed.
pub(super) fn seal(path: &Path, now: Timestamp) -> Result<BackupSummary, BackupError> {
    let label = serde_json::to_string(&BackupLabel { taken_at: now }).unwrap_or_default();
    let write = || {
        let connection = open_alone(path)?;
        write_meta(&connection, LABEL_KEY, &label)?;
        connection.close().map_err(|(_, error)| error)
    };
    write().map_err(BackupError::sqlite(path))?;
    let summary = inspect_backup(path)?;
    let flush = || {
        File::open(path)?.sync_all()?;
        private::flush_name(path)
    };
    flush().map_err(BackupError::files(path))?;
    Ok(summary)
}

/// Opens a connection that leaves no second file behind.
pub(super) fn open_alone(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "journal_mode", "DELETE")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Opens a connection that changes nothing, not even a file beside the database.
pub(super) fn open_unchanged(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{}?mode=ro&immutable=1", escaped(path)?), flags)
}

const WRITE_META: &str = "\
    INSERT INTO fleet_documents (collection, key, rev, doc) VALUES (?1, ?2, 1, ?3)
    ON CONFLICT (collection, key) DO UPDATE SET rev = rev + 1, doc = excluded.doc";
const READ_META: &str = "SELECT doc FROM fleet_documents WHERE collection = ?1 AND key = ?2";

pub(super) fn write_meta(connection: &Connection, key: &str, document: &str) -> rusqlite::Result<()> {
    connection.execute(WRITE_META, params![Collection::Meta.name(), key, document]).map(drop)
}

pub(super) fn read_meta(connection: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    connection.query_row(READ_META, params![Collection::Meta.name(), key], |row| row.get(0)).optional()
}

/// The database's generation.
pub(super) fn generation(connection: &Connection) -> rusqlite::Result<Generation> {
    let document = read_meta(connection, StoreGeneration::KEY)?;
    let lineage = document.map(|document| serde_json::from_str::<StoreGeneration>(&document)).transpose();
    Ok(lineage.map_err(super::row::unreadable(0))?.unwrap_or_default().generation)
}

/// Checks the schema and the integrity of a backup, and summarises it.
fn check(connection: &Connection, path: &Path) -> Result<BackupSummary, BackupError> {
    let wrong = |error| BackupError::sqlite(path)(error);
    let read = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, schema) =
        (read("application_id").map_err(wrong)?, u32::try_from(read("user_version").map_err(wrong)?).unwrap_or(0));
    if application != i64::from(APPLICATION_ID) || schema == 0 {
        return Err(BackupError::NotABackup { path: path.to_owned(), why: "it belongs to another program".to_owned() });
    }
    if schema > schema::newest() {
        return Err(BackupError::Newer { path: path.to_owned(), found: schema, known: schema::newest() });
    }
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(wrong)?;
    if verdict != "ok" {
        return Err(BackupError::Damaged { path: path.to_owned(), why: verdict });
    }
    if objects(connection).map_err(wrong)? != expected_objects(schema).map_err(wrong)? {
        let why = format!("its tables are not those of schema {schema}");
        return Err(BackupError::NotABackup { path: path.to_owned(), why });
    }
    let (summary, counted, bodies) = count(connection, schema).map_err(wrong)?;
    if (counted, bodies) != (summary.jobs, summary.jobs) {
        let why = format!("{} jobs, {bodies} bodies, and {counted} by the counts", summary.jobs);
        return Err(BackupError::Damaged { path: path.to_owned(), why });
    }
    Ok(summary)
}

/// The SQL of tables and indexes. Other objects are rejected: a trigger would run within the store's writes.
fn objects(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    // Names that begin with `sqlite_` are reserved for SQLite.
    let own =
        r"SELECT name, ifnull(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name";
    connection.prepare(own)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn expected_objects(schema: u32) -> rusqlite::Result<Vec<(String, String)>> {
    let mut blank = Connection::open_in_memory()?;
    let known = schema::MIGRATIONS.len().min(usize::try_from(schema).unwrap_or(usize::MAX));
    schema::migrate(&mut blank, &schema::MIGRATIONS[..known])?;
    objects(&blank)
}

const COUNTS: &str = "\
    SELECT (SELECT count(*) FROM fleet_jobs), (SELECT count(*) FROM fleet_jobs WHERE open = 1),
           (SELECT count(*) FROM fleet_events), (SELECT ifnull(max(pos), 0) FROM fleet_events),
           (SELECT ifnull(sum(n), 0) FROM fleet_counts), (SELECT count(*) FROM fleet_bodies),
           (SELECT count(*) FROM fleet_documents WHERE collection = ?1)";

/// Summarises the content; counts the jobs in two more ways for comparison.
fn count(connection: &Connection, schema: u32) -> rusqlite::Result<(BackupSummary, u64, u64)> {
    let generation = generation(connection)?;
    let label = read_meta(connection, LABEL_KEY)?;
    let label = label.and_then(|label| serde_json::from_str::<BackupLabel>(&label).ok());
    connection.query_row(COUNTS, [evidence::COLLECTION], |row| {
        let summary = BackupSummary {
            taken_at: label.map(|label| label.taken_at),
            generation,
            schema,
            jobs: counter(row, 0)?,
            open: counter(row, 1)?,
            events: counter(row, 2)?,
            position: Position(counter(row, 3)?),
            evidence: counter(row, 6)?,
            bytes: 0,
            sha256: String::new(),
        };
        Ok((summary, counter(row, 4)?, counter(row, 5)?))
    })
}

fn digest(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hash) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; 1024 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => hash.update(&buffer[..n]),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

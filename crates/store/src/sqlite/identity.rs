//! The identity of a database: compared with the record beside it, to detect lost work (row 37).

use std::fs;
use std::path::{Path, PathBuf};

use domain::{Generation, Position, StoreGeneration, Timestamp};
use rusqlite::{Connection, TransactionBehavior};
use tracing::{info, warn};

use super::backup::{self, read_meta, write_meta};
use super::inspect::{length, with_suffix};
use super::open_error::OpenError;
use super::restore;
use super::row::counter;
use crate::record::{FileStamp, RecordFile, StoreIdentity, StoreRecord, read_record};

/// The key of the store's own id in [`domain::Collection::Meta`].
pub(crate) const ID_KEY: &str = "store";

const NEW_ID: &str = "SELECT lower(hex(randomblob(16)))";
const POSITION: &str = "SELECT ifnull(max(pos), 0) FROM fleet_events";

/// The identity that was found when a store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenedIdentity {
    /// The store was created now.
    pub is_new: bool,
    /// The file is unchanged since a clean shutdown. Otherwise it needs a full check.
    pub is_untouched: bool,
}

/// The record of a database that is about to be opened.
pub(super) struct Expectation {
    path: PathBuf,
    record: Option<StoreRecord>,
    is_missing: bool,
    is_untouched: bool,
}

/// The path of the record of the database at `path`.
pub fn record_path(path: &Path) -> PathBuf {
    with_suffix(path, ".record")
}

/// Reports whether a store exists at `database`: as a file, a log, a staged restore or a record. Opens nothing.
pub fn holds_store(database: &Path) -> bool {
    let is_there = |path: &Path| length(path).is_ok_and(|len| len > 0);
    let beside = [with_suffix(database, "-wal"), record_path(database)];
    is_there(database) || beside.iter().any(|path| is_there(path)) || restore::is_staged(database)
}

impl Expectation {
    /// Reads the record and refuses a missing database before a new one is created. The caller must hold the lock and
    /// have finished a staged restore.
    pub(super) fn read(database: &Path, accept: Option<Timestamp>) -> Result<Self, OpenError> {
        let path = record_path(database);
        let record = read_record(&path).map_err(OpenError::files(&path))?;
        let is_missing = length(database)? == 0;
        let stamp = FileStamp::of(database).ok();
        let is_untouched = record.as_ref().is_some_and(|record| record.clean.is_some() && record.clean == stamp);
        if is_missing && let Some(record) = &record {
            let found = if database.exists() { "an empty file" } else { "no file" };
            let loss = record.loss(&path, &format!("`{}` is missing", database.display()), found.to_owned());
            match accept {
                None => return Err(OpenError::DataLoss(loss)),
                Some(_) => {
                    warn!("Accepted: {loss}");
                    set_log_aside(database).map_err(OpenError::files(database))?;
                }
            }
        }
        Ok(Self { path, record, is_missing, is_untouched })
    }

    /// Compares the opened database with the record, assigns an id if it has none, and starts its new record.
    pub(super) fn meet(
        self,
        connection: &mut Connection,
        database: &Path,
        accept: Option<Timestamp>,
    ) -> Result<(OpenedIdentity, RecordFile), OpenError> {
        let wrong = |error| OpenError::sqlite(database)(error);
        let mut found = read_identity(connection).map_err(wrong)?;
        let loss = match &self.record {
            Some(_) if self.is_missing => true,
            Some(record) => match (record.check(&found, &self.path), accept) {
                (Err(loss), None) => return Err(OpenError::DataLoss(loss)),
                (Err(loss), Some(_)) => {
                    warn!("Accepted: {loss}");
                    true
                }
                (Ok(()), _) => false,
            },
            None => false,
        };
        let is_new = self.is_missing || (found.store_id.is_none() && is_blank(connection).map_err(wrong)?);
        // The store was recreated although one existed before: holders of lost leases are fenced as after a restore.
        if let Some(at) = accept.filter(|_| loss || is_new) {
            let replaced = self.record.as_ref().map(|record| record.generation);
            let generation = Generation::restored(found.generation.unwrap_or_default(), replaced, at);
            found.generation = Some(generation);
            let lineage = StoreGeneration { generation, restored_at: Some(at), as_of: None };
            let document = serde_json::to_string(&lineage).unwrap_or_default();
            write_meta(connection, StoreGeneration::KEY, &document).map_err(wrong)?;
            info!(store.generation = %generation, "The store continues with generation {generation}");
        }
        let store_id = identify(connection).map_err(wrong)?;
        let generation = found.generation.or(self.record.map(|record| record.generation)).unwrap_or_default();
        let record = StoreRecord { store_id, generation, position: found.position, clean: None };
        let kept = RecordFile::create(&self.path, record).map_err(OpenError::files(&self.path))?;
        Ok((OpenedIdentity { is_new, is_untouched: self.is_untouched && !loss }, kept))
    }
}

/// Writes the record of a database that replaces another one.
pub(super) fn begin_record(staged: &Connection, database: &Path) -> Result<(), OpenError> {
    let wrong = |error| OpenError::sqlite(database)(error);
    let found = read_identity(staged).map_err(wrong)?;
    let path = record_path(database);
    // A staged backup always has an id.
    let Some(store_id) = found.store_id else { return Ok(()) };
    let generation = found.generation.unwrap_or_default();
    let record = StoreRecord { store_id, generation, position: found.position, clean: None };
    RecordFile::create(&path, record).map(drop).map_err(OpenError::files(&path))
}

/// The store's id; assigns one if it has none.
pub(super) fn identify(connection: &mut Connection) -> rusqlite::Result<String> {
    if let Some(id) = id(connection)? {
        return Ok(id);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let id: String = transaction.query_row(NEW_ID, [], |row| row.get(0))?;
    write_meta(&transaction, ID_KEY, &serde_json::json!({ "id": id }).to_string())?;
    transaction.commit()?;
    Ok(id)
}

pub(super) fn read_identity(connection: &Connection) -> rusqlite::Result<StoreIdentity> {
    Ok(StoreIdentity {
        store_id: id(connection)?,
        generation: match backup::generation(connection) {
            Err(rusqlite::Error::FromSqlConversionFailure(..)) => None,
            read => Some(read?),
        },
        position: Position(connection.query_row(POSITION, [], |row| counter(row, 0))?),
    })
}

fn id(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let document = read_meta(connection, ID_KEY)?;
    let document = document.and_then(|document| serde_json::from_str::<serde_json::Value>(&document).ok());
    Ok(document.and_then(|document| document["id"].as_str().map(str::to_owned)))
}

/// Reports whether the database was never written.
fn is_blank(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT NOT EXISTS (SELECT 1 FROM fleet_documents) AND NOT EXISTS (SELECT 1 FROM fleet_jobs)",
        [],
        |row| row.get(0),
    )
}

/// Renames the log of a missing database: it fits no other one.
fn set_log_aside(database: &Path) -> std::io::Result<()> {
    let log = with_suffix(database, "-wal");
    if log.exists() {
        fs::rename(&log, restore::unused_name(&log, Generation::default()))?;
    }
    restore::remove_if_present(&with_suffix(database, "-shm"))
}

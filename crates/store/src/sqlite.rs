//! SQLite: one file, one writer with group commit, and concurrent readers.

mod backend;
mod backup;
mod backup_error;
mod check;
mod connection;
mod documents;
mod errors;
mod evidence;
mod history;
mod identity;
mod inspect;
mod jobs;
mod list;
mod lock;
mod open_error;
#[cfg(test)]
mod query_plan_tests;
mod readers;
mod restore;
mod row;
mod schema;
mod search_index;
#[cfg(feature = "postgres")]
mod transfer;
mod unit;
mod writer;
mod writer_cache;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Position, StoreError, Timestamp};
use tokio::sync::watch;

pub(crate) use backend::SqliteBackend;
pub use backup::{back_up_closed, inspect_backup};
pub use backup_error::BackupError;
pub use check::check_closed;
pub use connection::Settings;
pub use evidence::{EvidenceImport, pack_evidence, unpack_evidence};
pub use identity::{OpenedIdentity, holds_store, record_path};
pub use open_error::OpenError;
pub use restore::{RestoreOutcome, restore_closed, stage_restore};

#[cfg(feature = "postgres")]
pub(crate) use backup::LABEL_KEY;
#[cfg(feature = "postgres")]
pub(crate) use transfer::{BackupBuilder, RowValues, read_out};

use connection::Role;
use identity::Expectation;
use lock::DirectoryLock;
use readers::Readers;
use writer::{Files, Writer};

use crate::meter::{Meter, Operations};
use crate::quarantine::Quarantine;
use crate::recent::RecentEvents;

/// A store in one SQLite file. One process at a time may open it.
///
/// [`SqliteStore::close`] flushes and releases the file. Dropping does the same, but blocks its thread.
pub struct SqliteStore {
    // Readers are dropped first: the connection that closes last removes the write-ahead log.
    readers: Readers,
    writer: Writer,
    end: watch::Receiver<Position>,
    recent: Arc<RecentEvents>,
    meter: Arc<Meter>,
    settings: Vec<Settings>,
    quarantine: Arc<Quarantine>,
    opening: OpenedIdentity,
    path: PathBuf,
}

/// Resource limits of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Connections that read concurrently with the writer.
    pub readers: usize,
    /// Maximum number of queued writes; further callers wait.
    pub waiting_max: usize,
    /// Maximum size of the database in pages of 4 KiB; unlimited when absent.
    pub pages_max: Option<u32>,
    /// The time at which the operator accepted the loss of acknowledged work. A database that is behind its record
    /// then opens under a new generation; without it, it is refused.
    pub accept_data_loss: Option<Timestamp>,
}

impl Default for Options {
    fn default() -> Self {
        // Reads are short; four at once keep a small machine busy. The queue holds the callers of a few flushes.
        Self { readers: 4, waiting_max: 1024, pages_max: None, accept_data_loss: None }
    }
}

impl SqliteStore {
    /// Opens the database at `path`; creates it and its directory if it does not exist.
    ///
    /// It first finishes a restore that was staged or interrupted: see [`stage_restore`].
    ///
    /// A database that is behind its record is refused, unless the options accept the loss.
    ///
    /// A file of another program is refused and not changed. An older schema is migrated in one transaction.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let lock = DirectoryLock::take(path)?;
        restore::finish(path)?;
        let expectation = Expectation::read(path, options.accept_data_loss)?;
        inspect::inspect(path)?;
        let (mut connection, written_with) = connection::connect(path, Role::Writer, options)?;
        schema::migrate(&mut connection, schema::MIGRATIONS).map_err(OpenError::sqlite(path))?;
        let (opening, record) = expectation.meet(&mut connection, path, options.accept_data_loss)?;
        let meter = Arc::new(Meter::default());
        let mut settings = vec![written_with];
        let mut readers = Vec::new();
        for _ in 0..options.readers.max(1) {
            let (reader, read_with) = connection::connect(path, Role::Reader, options)?;
            readers.push(reader);
            settings.push(read_with);
        }
        let recent: Arc<RecentEvents> = Arc::default();
        let files = Files { connection, lock, record, database: path.to_owned() };
        let started = Writer::start(files, Arc::clone(&meter), Arc::clone(&recent), options.waiting_max);
        let (writer, end) = started.map_err(|error| error.at(path))?;
        Ok(Self {
            readers: Readers::new(readers),
            writer,
            end,
            recent,
            meter,
            settings,
            quarantine: Arc::default(),
            opening,
            path: path.to_owned(),
        })
    }

    /// The operations since the store was opened.
    pub fn operations(&self) -> Operations {
        self.meter.operations()
    }

    /// The identity that was found when the store was opened.
    pub fn opening(&self) -> OpenedIdentity {
        self.opening
    }

    /// The settings of each connection, as read back from it; the writer's come first.
    pub fn settings(&self) -> &[Settings] {
        &self.settings
    }

    /// Writes the queue, checkpoints the write-ahead log and releases the file. Later calls return `Unavailable`.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.readers.close().await;
        self.writer.close().await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("operations", &self.operations()).finish_non_exhaustive()
    }
}

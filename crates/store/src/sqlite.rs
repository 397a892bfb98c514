//! SQLite: one file, one writer that shares its flushes among all who wait, readers beside it.

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

/// A store in one SQLite file. It belongs to one process at a time.
///
/// [`Sqlite::close`] flushes and lets go of the file; dropping does the same, but holds up its thread meanwhile.
pub struct SqliteStore {
    // Readers go first: the connection that closes last clears the write-ahead log away.
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

/// How much of the machine the store may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Connections that read beside the writer.
    pub readers: usize,
    /// Writes that may wait; the next caller waits for room.
    pub waiting_max: usize,
    /// The largest size of the database in pages of 4 KiB; as large as the disk allows when absent.
    pub pages_max: Option<u32>,
    /// When an operator accepted, now, that acknowledged work is missing: a database below its record is then opened under
    /// a new generation. Without it such a database is refused.
    pub accept_data_loss: Option<Timestamp>,
}

impl Default for Options {
    fn default() -> Self {
        // Reads are short; four at once already keep a small machine busy. The queue holds a few flushes' worth of callers.
        Self { readers: 4, waiting_max: 1024, pages_max: None, accept_data_loss: None }
    }
}

impl SqliteStore {
    /// Opens the database at `path`, and creates it with its folder when there is nothing.
    ///
    /// A restore that was staged, or that a death cut short, is finished first: see [`stage_restore`].
    ///
    /// A database that lacks what the record beside it knows of is refused, unless the options accept the loss.
    ///
    /// A file that cannot be ours is refused and left as it is. An older schema is brought up to date in one transaction.
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

    /// What the store was asked to do since it was opened.
    pub fn operations(&self) -> Operations {
        self.meter.operations()
    }

    /// What was found when it was opened.
    pub fn opening(&self) -> OpenedIdentity {
        self.opening
    }

    /// What each connection runs with, as read back from it: the writer's first.
    pub fn settings(&self) -> &[Settings] {
        &self.settings
    }

    /// Writes what waits, empties the write-ahead log into the database and lets go of the file. Whatever is asked
    /// afterwards is answered with `Unavailable`.
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

//! Replaces a database with a backup. A crash at any step leaves the old one or the new one.
//!
//! The copy is prepared beside the database: checked, moved to its new generation, flushed. Then it is renamed to the
//! name of a staged restore: that rename commits the restore. The next open of the database moves the old files aside
//! and the new ones into place, and repeats that after a crash.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use domain::{BackupSummary, Collection, Generation, StoreGeneration, Timestamp};
use fail::fail_point;
use rusqlite::{Connection, OpenFlags, params};
use tracing::{info, warn};

use super::backup::{self, LABEL_KEY, inspect_backup, open_alone, open_unchanged, write_meta};
use super::backup_error::BackupError;
use super::evidence;
use super::identity;
use super::inspect::with_suffix;
use super::lock::DirectoryLock;
use super::open_error::OpenError;
use crate::private;

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreOutcome {
    /// The restored backup.
    pub backup: BackupSummary,
    /// The store's new generation.
    pub generation: Generation,
    /// Where the replaced database is kept; absent if there was none.
    pub kept: Option<PathBuf>,
}

/// Replaces a closed database with a backup. The old one is kept beside it.
pub fn restore_closed(from: &Path, database: &Path, now: Timestamp) -> Result<RestoreOutcome, BackupError> {
    // Checked before anything is changed: most files that are not backups fail here.
    inspect_backup(from)?;
    let _lock = DirectoryLock::take(database)?;
    finish(database)?;
    let incoming = with_suffix(database, ".incoming");
    copy_privately(from, &incoming).map_err(BackupError::files(&incoming))?;
    let staged = stage_restore(&incoming, database, generation_of(database), now)?;
    finish(database)?;
    Ok(staged)
}

/// Stages `incoming`, a file on the database's own disk, as the database that the next [`super::SqliteStore::open`]
/// opens. Its generation will be above its own and above `replaced`. The file is consumed; an error changes nothing.
pub fn stage_restore(
    incoming: &Path,
    database: &Path,
    replaced: Option<Generation>,
    now: Timestamp,
) -> Result<RestoreOutcome, BackupError> {
    let summary = inspect_backup(incoming)?;
    let generation = Generation::restored(summary.generation, replaced, now);
    let lineage = StoreGeneration { generation, restored_at: Some(now), as_of: summary.taken_at };
    write_generations(incoming, &lineage).map_err(BackupError::sqlite(incoming))?;
    fail_point!("restore::ready");
    let staged = staged(database);
    let name = || {
        File::open(incoming)?.sync_all()?;
        fs::rename(incoming, &staged)?;
        private::flush_name(&staged)
    };
    name().map_err(BackupError::files(&staged))?;
    fail_point!("restore::staged");
    let kept = database.exists().then(|| unused_name(database, generation));
    Ok(RestoreOutcome { backup: summary, generation, kept })
}

/// Reports whether a restore is staged for the next open.
pub(super) fn is_staged(database: &Path) -> bool {
    staged(database).exists()
}

/// Finishes a staged restore. The caller must hold the lock. Idempotent.
pub(super) fn finish(database: &Path) -> Result<(), OpenError> {
    let staged = staged(database);
    if !staged.exists() {
        return Ok(());
    }
    let incoming = open_unchanged(&staged).map_err(OpenError::sqlite(&staged))?;
    let generation = backup::generation(&incoming).map_err(OpenError::sqlite(&staged))?;
    // Before the files move: a restart that completes the restore writes the same record again.
    identity::begin_record(&incoming, database)?;
    drop(incoming);
    let kept = unused_name(database, generation);
    let swap = || {
        // The log is moved first, under a matching name: SQLite would replay it into another database.
        move_if_present(&with_suffix(database, "-wal"), &with_suffix(&kept, "-wal"))?;
        fail_point!("restore::log_aside", |_| Ok(()));
        remove_if_present(&with_suffix(database, "-shm"))?;
        move_if_present(database, &kept)?;
        private::flush_name(database)?;
        fail_point!("restore::old_aside", |_| Ok(()));
        fs::rename(&staged, database)?;
        fail_point!("restore::in_place", |_| Ok(()));
        private::flush_name(database)
    };
    swap().map_err(OpenError::files(database))?;
    info!(
        store.generation = %generation,
        "Restored a backup with generation {generation}; the replaced database is kept as {}", kept.display()
    );
    Ok(())
}

/// Writes the store's generation history into the copy.
fn write_generations(path: &Path, lineage: &StoreGeneration) -> rusqlite::Result<()> {
    let mut connection = open_alone(path)?;
    let transaction = connection.transaction()?;
    let document = serde_json::to_string(lineage).unwrap_or_default();
    write_meta(&transaction, StoreGeneration::KEY, &document)?;
    transaction.execute(
        "DELETE FROM fleet_documents WHERE collection = ?1 AND key = ?2",
        params![Collection::Meta.name(), LABEL_KEY],
    )?;
    evidence::remove(&transaction)?;
    transaction.commit()?;
    identity::identify(&mut connection)?;
    connection.close().map_err(|(_, error)| error)
}

/// The generation of the current database, if it can be read.
fn generation_of(database: &Path) -> Option<Generation> {
    if !database.exists() {
        return None;
    }
    let read = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .and_then(|connection| backup::generation(&connection));
    match read {
        Ok(generation) => Some(generation),
        Err(error) => {
            warn!(%error, "The replaced database is unreadable: the next generation is taken from the clock");
            None
        }
    }
}

fn staged(database: &Path) -> PathBuf {
    with_suffix(database, ".restoring")
}

/// The name for the replaced database: unused, and stable until the move is complete.
pub(super) fn unused_name(database: &Path, generation: Generation) -> PathBuf {
    let first = with_suffix(database, &format!(".before-generation-{generation}"));
    let others = (2_u32..).map(|n| with_suffix(&first, &format!(".{n}")));
    std::iter::once(first.clone()).chain(others).find(|path| !path.exists()).unwrap_or(first)
}

fn copy_privately(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = private::file().write(true).create(true).truncate(true).open(to)?;
    io::copy(&mut source, &mut target)?;
    target.sync_all()
}

fn move_if_present(from: &Path, to: &Path) -> io::Result<()> {
    absent_is_fine(fs::rename(from, to))
}

pub(super) fn remove_if_present(path: &Path) -> io::Result<()> {
    absent_is_fine(fs::remove_file(path))
}

fn absent_is_fine(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

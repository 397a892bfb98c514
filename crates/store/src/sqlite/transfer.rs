//! Backups that are written from another kind of store, and read into one.

use std::fs;
use std::path::{Path, PathBuf};

use domain::{BackupSummary, Timestamp};
use rusqlite::{Connection, OpenFlags, params_from_iter};

use super::backup::{open_unchanged, seal};
use super::backup_error::BackupError;
use super::schema;
use crate::private;
use crate::sql_value::SqlValue;

/// The search index is not copied: it is built after the restore.
const INDEX_LATER: &str = "\
    UPDATE fleet_index SET pos = (SELECT ifnull(max(pos), 0) FROM fleet_events),
                           todo = (SELECT ifnull(max(n), 0) FROM fleet_jobs)";

/// The values of one row.
pub(crate) type RowValues = Vec<SqlValue>;

/// A backup that is being written. Unless it is finished, its file is removed.
pub(crate) struct BackupBuilder {
    connection: Option<Connection>,
    path: PathBuf,
    is_whole: bool,
}

impl BackupBuilder {
    /// Creates an empty file with the schema; an existing file is an error.
    pub(crate) fn begin(path: &Path) -> Result<Self, BackupError> {
        private::file().write(true).create_new(true).open(path).map_err(BackupError::files(path))?;
        let mut filling = Self { connection: None, path: path.to_owned(), is_whole: false };
        filling.connection = Some(blank(path).map_err(BackupError::sqlite(path))?);
        Ok(filling)
    }

    pub(crate) fn add(&mut self, insert: &str, rows: &[RowValues]) -> Result<(), BackupError> {
        let Some(connection) = &self.connection else { return Ok(()) };
        let write = || {
            let mut statement = connection.prepare_cached(insert)?;
            rows.iter().try_for_each(|row| statement.execute(params_from_iter(row)).map(drop))
        };
        write().map_err(BackupError::sqlite(&self.path))
    }

    /// Completes the backup: checked, labelled and flushed.
    pub(crate) fn finish(mut self, now: Timestamp) -> Result<BackupSummary, BackupError> {
        if let Some(connection) = self.connection.take() {
            let close = || {
                connection.execute_batch(INDEX_LATER)?;
                connection.execute_batch("COMMIT")?;
                connection.close().map_err(|(_, error)| error)
            };
            close().map_err(BackupError::sqlite(&self.path))?;
        }
        let summary = seal(&self.path, now)?;
        self.is_whole = true;
        Ok(summary)
    }
}

impl Drop for BackupBuilder {
    fn drop(&mut self) {
        drop(self.connection.take());
        if !self.is_whole {
            // Remove a partial copy: it is unusable, and the next attempt needs its name.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn blank(path: &Path) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // An unfinished file is removed, so no rollback journal is needed.
    connection.pragma_update(None, "journal_mode", "OFF")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    schema::migrate(&mut connection, schema::MIGRATIONS)?;
    connection.execute_batch("BEGIN")?;
    Ok(connection)
}

/// Reads the rows of a backup and passes them on in thousands, until the callback stops it.
pub(crate) fn read_out(
    path: &Path,
    select: &str,
    mut hand_over: impl FnMut(Vec<RowValues>) -> bool,
) -> Result<(), BackupError> {
    const AT_ONCE: usize = 1_000;
    let wrong = |error| BackupError::sqlite(path)(error);
    let connection = open_unchanged(path).map_err(wrong)?;
    let mut statement = connection.prepare(select).map_err(wrong)?;
    let columns = statement.column_count();
    let mut rows = statement.query([]).map_err(wrong)?;
    let mut page = Vec::with_capacity(AT_ONCE);
    while let Some(row) = rows.next().map_err(wrong)? {
        let cells = (0..columns).map(|column| SqlValue::read(row, column)).collect::<rusqlite::Result<_>>();
        page.push(cells.map_err(wrong)?);
        if page.len() == AT_ONCE && !hand_over(std::mem::take(&mut page)) {
            return Ok(());
        }
    }
    hand_over(page);
    Ok(())
}

//! A full check: every page of every table and index is read.

use std::path::Path;

use domain::StoreError;
use rusqlite::{Connection, ErrorCode};

use super::connection::{self, Role};
use super::errors::{closed, to_store_error};
use super::inspect::{length, open_read_only, with_suffix};
use super::open_error::OpenError;
use super::{Options, SqliteStore};

const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";

impl SqliteStore {
    /// Reads every used page, concurrently with other work, and returns the damage; `None` if there is none. Wrong
    /// content in a well-formed page is not detected.
    pub async fn check(&self) -> Result<Option<String>, StoreError> {
        let path = self.path.clone();
        let checking = tokio::task::spawn_blocking(move || {
            let (connection, _) =
                connection::connect(&path, Role::Reader, Options::default()).map_err(|error| error.to_string())?;
            Ok::<_, String>(damage(&connection).map_err(|error| to_store_error(&error)))
        });
        match checking.await.map_err(|_| closed())? {
            Ok(checked) => checked,
            Err(why) => Err(StoreError::Unavailable(why)),
        }
    }
}

/// The same check of a database that this process has not opened; a coordinator may use it meanwhile.
pub fn check_closed(database: &Path) -> Result<Option<String>, OpenError> {
    let log = length(&with_suffix(database, "-wal"))?;
    let checked = open_read_only(database, log).and_then(|connection| damage(&connection));
    checked.map_err(OpenError::sqlite(database))
}

/// Checks one table with its indexes at a time, so that no snapshot is held for long: a log with readers cannot be
/// truncated.
fn damage(connection: &Connection) -> rusqlite::Result<Option<String>> {
    match check_tables(connection) {
        Err(error)
            if matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)) =>
        {
            Ok(Some(error.to_string()))
        }
        checked => checked,
    }
}

fn check_tables(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let tables: Vec<String> =
        connection.prepare(TABLES)?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for table in tables {
        let verdict: String =
            connection.query_row(&format!("PRAGMA quick_check(\"{table}\")"), [], |row| row.get(0))?;
        if verdict != "ok" {
            return Ok(Some(format!("{table}: {}", verdict.lines().next().unwrap_or_default())));
        }
    }
    Ok(None)
}

//! Connections. The settings that durability depends on are set and read back.

use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::Options;
use super::open_error::OpenError;
use crate::private;

/// A connection's settings, as read back from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `wal`: readers and the writer do not block each other.
    pub journal_mode: String,
    /// 2 is FULL: a commit is flushed before it returns.
    pub synchronous: u8,
    /// Enforces that a row of a job refers to an existing job.
    pub foreign_keys: bool,
    /// How long a connection waits for another connection's lock.
    pub busy_timeout_ms: u32,
    /// A reader cannot write.
    pub query_only: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Reader,
}

/// Only a checkpoint makes a connection wait, for far less time.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Room for every statement of the adapter, so that each is compiled once.
const STATEMENTS_MAX: usize = 64;

/// Opens a connection and checks its settings.
pub(super) fn connect(path: &Path, role: Role, options: Options) -> Result<(Connection, Settings), OpenError> {
    if role == Role::Writer {
        create(path).map_err(OpenError::files(path))?;
    }
    let connection = Connection::open_with_flags(path, flags(role)).map_err(OpenError::sqlite(path))?;
    let found = set_up(&connection, role, options).map_err(OpenError::sqlite(path))?;
    let wanted = Settings {
        journal_mode: "wal".to_owned(),
        synchronous: 2,
        foreign_keys: true,
        busy_timeout_ms: u32::try_from(BUSY_TIMEOUT.as_millis()).unwrap_or(u32::MAX),
        query_only: role == Role::Reader,
    };
    if found != wanted {
        let (wanted, found) = (Box::new(wanted), Box::new(found));
        return Err(OpenError::Settings { path: path.to_owned(), wanted, found });
    }
    Ok((connection, found))
}

/// Creates the file before SQLite does; SQLite gives its other files the same mode.
fn create(path: &Path) -> io::Result<()> {
    match private::file().write(true).create_new(true).open(path) {
        Ok(_) => private::flush_name(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn flags(role: Role) -> OpenFlags {
    // One thread at a time uses each connection, so SQLite needs no mutex.
    OpenFlags::SQLITE_OPEN_NO_MUTEX
        | match role {
            Role::Writer => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Role::Reader => OpenFlags::SQLITE_OPEN_READ_ONLY,
        }
}

fn set_up(connection: &Connection, role: Role, options: Options) -> rusqlite::Result<Settings> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Query plans do not depend on bound values, so that a statement is not planned again for each value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    match role {
        Role::Writer => {
            connection.pragma_update(None, "journal_mode", "WAL")?;
            // 8 MiB hold the pages of the active jobs; the rest is in the page cache, and SQLite scans its whole cache
            // after every commit. A checkpoint per 16 MiB of log is rare compared with the commits that it delays, and
            // the log file never keeps more than 64 MiB.
            connection.pragma_update(None, "cache_size", -8 * 1024)?;
            connection.pragma_update(None, "wal_autocheckpoint", 4096)?;
            connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
            if let Some(pages) = options.pages_max {
                connection.pragma_update(None, "max_page_count", pages)?;
            }
        }
        Role::Reader => {
            connection.pragma_update(None, "query_only", true)?;
            connection.pragma_update(None, "cache_size", -4 * 1024)?;
        }
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    read_back(connection)
}

fn read_back(connection: &Connection) -> rusqlite::Result<Settings> {
    Ok(Settings {
        journal_mode: connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?,
        synchronous: connection.pragma_query_value(None, "synchronous", |row| row.get(0))?,
        foreign_keys: connection.pragma_query_value(None, "foreign_keys", |row| row.get(0))?,
        busy_timeout_ms: connection.pragma_query_value(None, "busy_timeout", |row| row.get(0))?,
        query_only: connection.pragma_query_value(None, "query_only", |row| row.get(0))?,
    })
}

//! Inspects a file before it is opened for writing, so that a foreign file is not changed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::open_error::OpenError;
use super::schema::{self, APPLICATION_ID};

/// Refuses a file that is not a usable database: foreign, newer, damaged, or no database at all.
pub(super) fn inspect(path: &Path) -> Result<(), OpenError> {
    let wal = length(&with_suffix(path, "-wal"))?;
    if length(path)? == 0 {
        if wal > 0 {
            let why = "it is missing or empty, but its write-ahead log is not".to_owned();
            return Err(OpenError::Damaged { path: path.to_owned(), why });
        }
        return Ok(());
    }
    let header = Header::read(path, wal).map_err(OpenError::sqlite(path))?;
    // A crash between the file's creation and its first transaction leaves an empty database, which is used.
    let blank = header.application_id == 0 && header.user_version == 0 && header.tables == 0;
    if header.application_id != APPLICATION_ID && !blank {
        return Err(OpenError::Foreign { path: path.to_owned(), found: header.application_id });
    }
    if header.user_version > schema::newest() {
        return Err(OpenError::Newer { path: path.to_owned(), found: header.user_version, known: schema::newest() });
    }
    Ok(())
}

struct Header {
    application_id: i32,
    user_version: u32,
    tables: u32,
}

impl Header {
    fn read(path: &Path, wal_len: u64) -> rusqlite::Result<Self> {
        let connection = open_read_only(path, wal_len)?;
        Ok(Self {
            application_id: connection.pragma_query_value(None, "application_id", |row| row.get(0))?,
            user_version: connection.pragma_query_value(None, "user_version", |row| row.get(0))?,
            tables: connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?,
        })
    }
}

/// Opens a read-only connection. Without a log, `immutable` keeps SQLite from creating files beside the database.
pub(super) fn open_read_only(path: &Path, wal_len: u64) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let mode = if wal_len == 0 { "mode=ro&immutable=1" } else { "mode=ro" };
    let connection = Connection::open_with_flags(format!("file:{}?{mode}", escaped(path)?), flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

/// The length of a file; zero if it does not exist.
pub(super) fn length(path: &Path) -> Result<u64, OpenError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(source) => Err(OpenError::Files { path: path.to_owned(), source }),
    }
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// The path as part of a URI, percent-encoded.
pub(super) fn escaped(path: &Path) -> rusqlite::Result<String> {
    let text = path.to_str().ok_or_else(|| rusqlite::Error::InvalidPath(path.to_owned()))?;
    Ok(text.replace('%', "%25").replace('?', "%3f").replace('#', "%23"))
}

//! Why a database could not be opened, with a remedy.

use std::io;
use std::path::{Path, PathBuf};

use super::connection::Settings;
use super::errors::is_full;
use crate::record::DataLoss;

/// Why a database could not be opened. The file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory or the file could not be read or written.
    #[error("cannot use `{}`: check that it is writable, or choose another data directory", path.display())]
    Files {
        /// The file or directory.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// Another process has the database open.
    #[error("`{}` is in use by {}: stop that process first, or choose another data directory", path.display(), named(*holder))]
    InUse {
        /// The database.
        path: PathBuf,
        /// The process id of the holder, if known.
        holder: Option<u32>,
    },
    /// The file is not a database.
    #[error("`{}` is not a SQLite database: move it, or choose another data directory", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The database belongs to another program.
    #[error(
        "`{}` is the database of another program (application id {found:#x}): choose another data directory",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The application id in the file.
        found: i32,
    },
    /// A newer version wrote the database.
    #[error(
        "`{}` has schema {found}, this version supports up to {known}: use the newer version, or restore a backup taken with this one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The database's schema version.
        found: u32,
        /// The newest schema version that this program supports.
        known: u32,
    },
    /// The database is damaged.
    #[error("`{}` is damaged ({why}): keep a copy, then restore a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        why: String,
    },
    /// The database lacks acknowledged work.
    #[error(transparent)]
    DataLoss(DataLoss),
    /// A connection does not have the settings that durability depends on.
    #[error("`{}` does not run with the required settings: expected {wanted:?}, found {found:?}", path.display())]
    Settings {
        /// The file.
        path: PathBuf,
        /// The requested settings.
        wanted: Box<Settings>,
        /// The effective settings.
        found: Box<Settings>,
    },
    /// SQLite could not open the database.
    #[error("SQLite cannot open `{}`: check the disk and its free space", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        #[source]
        source: rusqlite::Error,
    },
}

impl OpenError {
    /// Reports whether the disk is full, which is retryable.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Files { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            Self::Sqlite { source, .. } => is_full(source),
            _ => false,
        }
    }

    pub(super) fn files(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Files { path, source }
    }

    /// Maps an error of SQLite about this file.
    pub(super) fn sqlite(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        let path = path.to_owned();
        |source| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => Self::NotADatabase { path },
            Some(rusqlite::ErrorCode::DatabaseCorrupt) => Self::Damaged { path, why: source.to_string() },
            _ => Self::Sqlite { path, source },
        }
    }
}

fn named(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

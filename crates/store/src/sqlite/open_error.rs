//! Why a database cannot be opened, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::connection::Settings;
use super::errors::is_full;
use crate::record::DataLoss;

/// Why a database cannot be opened. Nothing was changed in the file.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder or the file cannot be read or written.
    #[error("cannot use `{}`: check that it is writable, or choose another data directory", path.display())]
    Files {
        /// What was to be used.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Somebody has it open.
    #[error("`{}` is in use by {}: stop that one first, or choose another data directory", path.display(), named(*holder))]
    InUse {
        /// The database.
        path: PathBuf,
        /// The process that holds it, if it is known.
        holder: Option<u32>,
    },
    /// The file is something else.
    #[error("`{}` is not a SQLite database: move it away, or choose another data directory", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The database is another program's.
    #[error(
        "`{}` is the database of another program (application id {found:#x}): choose another data directory",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The application id it carries.
        found: i32,
    },
    /// A newer program wrote it.
    #[error(
        "`{}` has schema {found}, this program knows up to {known}: use the newer program, or restore a backup taken with this one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest schema we know.
        known: u32,
    },
    /// The database is damaged.
    #[error("`{}` is damaged ({why}): keep a copy, then restore a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The database lacks something that was acknowledged.
    #[error(transparent)]
    DataLoss(DataLoss),
    /// A connection does not run with the settings that durability rests on.
    #[error("`{}` does not run with the settings asked for: wanted {wanted:?}, found {found:?}", path.display())]
    Settings {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        wanted: Box<Settings>,
        /// What is in force.
        found: Box<Settings>,
    },
    /// SQLite could not open it.
    #[error("SQLite cannot open `{}`: check the disk and its free space", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
}

impl OpenError {
    /// Whether it is for lack of space: there will be space again.
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

    /// What an error of SQLite says about the file.
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

//! Why a backup could not be created, read or restored.

use std::io;
use std::path::{Path, PathBuf};

use domain::StoreError;

use super::open_error::OpenError;

/// Why a backup could not be created, read or restored. Unless a variant says otherwise, nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file could not be read or written.
    #[error("cannot use `{}`", path.display())]
    Files {
        /// The file or directory.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The database does not exist.
    #[error("there is no database at `{}`", .0.display())]
    NoDatabase(PathBuf),
    /// The file is not a backup.
    #[error("`{}` is not a backup of a fleet: {why}", path.display())]
    NotABackup {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A newer version created the backup.
    #[error("`{}` has schema {found}, this version supports up to {known}: use the newer version", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The backup's schema version.
        found: u32,
        /// The newest schema version that this program supports.
        known: u32,
    },
    /// The backup's content is inconsistent.
    #[error("`{}` is damaged ({why}): use another backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The inconsistency.
        why: String,
    },
    /// SQLite returned an error.
    #[error("SQLite error on `{}`", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        #[source]
        source: rusqlite::Error,
    },
    /// The database server returned an error.
    #[error(transparent)]
    Server(StoreError),
    /// The connection broke during the last step: whether the server committed it is unknown.
    #[error("the outcome of the restore is unknown, because the database does not answer ({0}): restore it again")]
    Unknown(String),
    /// The database could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl BackupError {
    pub(super) fn files(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Files { path, source }
    }

    /// Maps an error of SQLite about this file.
    pub(super) fn sqlite(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        let path = path.to_owned();
        |source| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => {
                Self::NotABackup { path, why: "it is not a SQLite database".to_owned() }
            }
            Some(rusqlite::ErrorCode::DatabaseCorrupt) => Self::Damaged { path, why: source.to_string() },
            None if is_not_a_database(&source) => Self::Damaged { path, why: source.to_string() },
            _ => Self::Sqlite { path, source },
        }
    }
}

/// Reports whether a value has a type or form that this program never writes.
fn is_not_a_database(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as E;
    matches!(
        error,
        E::InvalidColumnType(..) | E::FromSqlConversionFailure(..) | E::IntegralValueOutOfRange(..) | E::Utf8Error(..)
    )
}

impl From<BackupError> for StoreError {
    fn from(error: BackupError) -> Self {
        let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
        match error {
            BackupError::Server(error) => error,
            BackupError::Damaged { .. } => Self::Corrupt(format!("{error}{cause}")),
            _ => Self::Unavailable(format!("{error}{cause}")),
        }
    }
}

//! Why a backup cannot be taken, read or put back.

use std::io;
use std::path::{Path, PathBuf};

use domain::StoreError;

use super::open_error::OpenError;

/// Why a backup cannot be taken, read or put back. Unless it says otherwise, what was there before is as it was.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file cannot be read or written.
    #[error("cannot use `{}`", path.display())]
    Files {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// There is nothing to back up.
    #[error("there is no database at `{}`", .0.display())]
    NoDatabase(PathBuf),
    /// The file is something else.
    #[error("`{}` is not a backup of a fleet: {why}", path.display())]
    NotABackup {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        why: String,
    },
    /// A newer program made it.
    #[error("`{}` has schema {found}, this program knows up to {known}: use the newer program", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest schema we know.
        known: u32,
    },
    /// What it holds does not fit together.
    #[error("`{}` is damaged ({why}): use another backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// SQLite could not do it.
    #[error("SQLite cannot work with `{}`", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// The server of a database could not do it.
    #[error(transparent)]
    Server(StoreError),
    /// The server of a database went away in the last step, and cannot be asked whether it has taken it.
    #[error("whether the backup is in place is not known, for the database cannot be asked ({0}): restore it again")]
    Unknown(String),
    /// The database itself cannot be had.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl BackupError {
    pub(super) fn files(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Files { path, source }
    }

    /// What an error of SQLite says about the file.
    pub(super) fn sqlite(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        let path = path.to_owned();
        |source| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => {
                Self::NotABackup { path, why: "it is no SQLite database".to_owned() }
            }
            Some(rusqlite::ErrorCode::DatabaseCorrupt) => Self::Damaged { path, why: source.to_string() },
            None if is_strange(&source) => Self::Damaged { path, why: source.to_string() },
            _ => Self::Sqlite { path, source },
        }
    }
}

/// Whether a value was found that nobody of us writes.
fn is_strange(error: &rusqlite::Error) -> bool {
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

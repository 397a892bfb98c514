//! What an error of SQLite means to those who asked, and what they can do about it.

use domain::StoreError;
use rusqlite::{Error, ErrorCode};

/// The fault behind an error of SQLite.
pub(super) fn fault(error: &Error) -> StoreError {
    match error.sqlite_error_code() {
        _ if is_full(error) => StoreError::DiskFull(
            "free some space on the disk of the database; nothing that was acknowledged is lost".to_owned(),
        ),
        Some(
            ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied,
        ) => StoreError::Unavailable(format!("the disk cannot be read or written: check it and its mount ({error})")),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt(format!("the database is damaged: keep a copy, then restore a backup ({error})"))
        }
        Some(ErrorCode::ConstraintViolation) => {
            StoreError::Corrupt(format!("the change contradicts what is stored ({error})"))
        }
        Some(_) => StoreError::Unavailable(format!("SQLite cannot do it now ({error})")),
        None => StoreError::Corrupt(error.to_string()),
    }
}

/// Whether it is for lack of space: the file or the log cannot grow, or the index of the log, which SQLite calls an I/O
/// error.
pub(super) fn is_full(error: &Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull) || is_index_full(error)
}

/// Whether the index of the write-ahead log could not grow. It does so after the log was flushed.
pub(super) fn is_index_full(error: &Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

/// The answer once the store has let go of its file.
pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed: the process is shutting down".to_owned())
}

//! Maps errors of SQLite to store errors with a remedy.

use domain::StoreError;
use rusqlite::{Error, ErrorCode};

/// Maps an error of SQLite to a store error.
pub(super) fn to_store_error(error: &Error) -> StoreError {
    match error.sqlite_error_code() {
        _ if is_full(error) => {
            StoreError::DiskFull("free space on the disk of the database; no acknowledged write is lost".to_owned())
        }
        Some(
            ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied,
        ) => StoreError::Unavailable(format!("I/O error: check the disk and its mount ({error})")),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt(format!("the database is damaged: keep a copy, then restore a backup ({error})"))
        }
        Some(ErrorCode::ConstraintViolation) => {
            StoreError::Corrupt(format!("the change conflicts with stored data ({error})"))
        }
        Some(_) => StoreError::Unavailable(format!("SQLite failed ({error})")),
        None => StoreError::Corrupt(error.to_string()),
    }
}

/// Reports whether the disk is full: the file, the log or the log's index cannot grow. SQLite reports the last one as
/// an I/O error.
pub(super) fn is_full(error: &Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull) || is_index_full(error)
}

/// Reports whether the index of the write-ahead log could not grow. That happens after the log was flushed.
pub(super) fn is_index_full(error: &Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

/// The error of a closed store.
pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed: the process is shutting down".to_owned())
}

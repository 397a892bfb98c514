//! What an error of SQLite means to those who asked, and what they can do about it.

use domain::StoreError;
use rusqlite::{Error, ErrorCode};

/// The fault behind an error of SQLite.
pub(super) fn fault(error: &Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Unavailable(
            "the disk is full: free some space where the database lives; nothing that was acknowledged is lost"
                .to_owned(),
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

/// The answer once the store has let go of its file.
pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed: the process is shutting down".to_owned())
}

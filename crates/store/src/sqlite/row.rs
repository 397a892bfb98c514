//! Conversions between columns and values.

use std::str::FromStr;
use std::sync::Arc;

use domain::{Job, JobId, Revision, Submission, Versioned};
use rusqlite::types::Type;
use rusqlite::{Error, Row};

/// A counter as SQLite stores it; no counter reaches the end of the range.
pub(super) fn stored(counter: u64) -> i64 {
    i64::try_from(counter).unwrap_or(i64::MAX)
}

pub(super) fn counter(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let stored: i64 = row.get(column)?;
    u64::try_from(stored).map_err(|_| Error::IntegralValueOutOfRange(column, stored))
}

pub(super) fn job_id(row: &Row<'_>, column: usize) -> rusqlite::Result<JobId> {
    row.get(column).map(JobId::from_bytes)
}

pub(super) fn parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    row.get_ref(column)?.as_str()?.parse().map_err(unreadable(column))
}

/// A job from its columns `rev`, `state`, `submission`, in this order.
pub(super) fn versioned_job(row: &Row<'_>) -> rusqlite::Result<Versioned<Job>> {
    let submission: Submission = serde_json::from_str(row.get_ref(2)?.as_str()?).map_err(unreadable(2))?;
    let job = Job::from_stored(Arc::new(submission), row.get_ref(1)?.as_str()?).map_err(unreadable(1))?;
    Ok(Versioned { value: job, revision: Revision(counter(row, 0)?) })
}

/// Reports whether an error is about the content of one row and not about the database.
pub(super) fn is_unreadable(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidColumnType(..)
            | Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::Utf8Error(..)
    )
}

pub(super) fn unreadable<E: std::error::Error + Send + Sync + 'static>(column: usize) -> impl FnOnce(E) -> Error {
    move |error| Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

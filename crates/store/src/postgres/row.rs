//! Conversions between columns and values.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use domain::{Job, JobId, Revision, StoreError, Submission, Versioned};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

/// A counter as PostgreSQL stores it; no counter reaches the end of the range.
pub(super) fn stored(counter: u64) -> i64 {
    i64::try_from(counter).unwrap_or(i64::MAX)
}

pub(super) fn uuid(id: JobId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(unreadable)
}

pub(super) fn counter(row: &Row, at: usize) -> Result<u64, StoreError> {
    u64::try_from(column::<i64>(row, at)?).map_err(unreadable)
}

pub(super) fn job_id(row: &Row, at: usize) -> Result<JobId, StoreError> {
    column::<Uuid>(row, at).map(|id| JobId::from_bytes(*id.as_bytes()))
}

pub(super) fn parsed<T: FromStr<Err: Display>>(row: &Row, at: usize) -> Result<T, StoreError> {
    column::<&str>(row, at)?.parse().map_err(unreadable)
}

pub(super) fn document(row: &Row, at: usize) -> Result<&str, StoreError> {
    std::str::from_utf8(column(row, at)?).map_err(unreadable)
}

/// A job from its columns `rev`, `state`, `submission`, in this order.
pub(super) fn versioned_job(row: &Row) -> Result<Versioned<Job>, StoreError> {
    let submission: Submission = serde_json::from_str(document(row, 2)?).map_err(unreadable)?;
    let job = Job::from_stored(Arc::new(submission), document(row, 1)?).map_err(unreadable)?;
    Ok(Versioned { value: job, revision: Revision(counter(row, 0)?) })
}

pub(super) fn unreadable(error: impl Display) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

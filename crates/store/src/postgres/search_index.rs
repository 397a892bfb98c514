//! The search index: the terms of each job. It is written in batches, after the jobs, so that their commits do not wait
//! for it; until then, lists read what it lacks from the log.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{CommitError, IndexProgress, Position, SearchTerm, StoreError, search_terms};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::PostgresStore;
use super::list::JOBS_BY_NUMBER;
use super::pool::Pool;
use super::row::{column, counter, stored, versioned_job};
use crate::intersection::Unindexed;

pub(super) const STATE: &str = "SELECT pos, todo FROM fleet_index";
pub(super) const CHANGED: &str = "SELECT pos, job FROM fleet_events WHERE pos > $1 ORDER BY pos LIMIT $2";
/// Another process may have written the same batch: then only the terms that it added too are added.
pub(super) const ADD: &str = "\
    WITH moved AS (UPDATE fleet_index SET pos = $1, todo = $2 WHERE pos = $3 AND todo = $4 RETURNING 1),
    removed AS (
        DELETE FROM fleet_terms i USING unnest($7::bigint[]) AS r (n)
        WHERE i.term = $8 AND i.n = r.n AND EXISTS (SELECT FROM moved)
    )
    INSERT INTO fleet_terms (term, n) SELECT * FROM unnest($5::bigint[], $6::bigint[]) ON CONFLICT DO NOTHING";

/// Jobs per batch.
const BATCH: usize = 256;

/// Events that are read for a batch.
const EVENTS_MAX: i64 = 2_048;

/// Events that a list reads to find the jobs that changed since. With more, it does not use the index.
const LAG_MAX: i64 = 8_192;

/// What the index lacks; `None` if that is too much to read.
pub(super) async fn unindexed(pool: &Pool) -> Result<Option<Unindexed>, StoreError> {
    let Some((pos, todo)) = state(pool).await? else { return Ok(None) };
    let events = changed(pool, pos, LAG_MAX).await?;
    if i64::try_from(events.len()).is_ok_and(|events| events >= LAG_MAX) {
        return Ok(None);
    }
    let jobs: BTreeSet<i64> = events.into_iter().map(|(_, job)| job).collect();
    let changed: Arc<[i64]> = jobs.into_iter().rev().collect();
    Ok(Some(Unindexed { changed, through: todo }))
}

/// The position through which changes are in the index, and the number through which jobs are not.
async fn state(pool: &Pool) -> Result<Option<(u64, i64)>, StoreError> {
    let rows = pool.rows(STATE, &[]).await?;
    rows.first().map(|row| Ok((counter(row, 0)?, column(row, 1)?))).transpose()
}

async fn changed(pool: &Pool, after: u64, limit: i64) -> Result<Vec<(u64, i64)>, StoreError> {
    let rows = pool.rows(CHANGED, &[&stored(after), &limit]).await?;
    rows.iter().map(|row| Ok((counter(row, 0)?, column(row, 1)?))).collect()
}

impl PostgresStore {
    pub(super) async fn index_next(&self) -> Result<IndexProgress, StoreError> {
        self.meter.index_steps.add(1);
        let Some((pos, todo)) = state(&self.pool).await? else { return Ok(IndexProgress::KeptByWrites) };
        let (mut to_pos, mut to_todo, mut jobs) = (pos, todo, BTreeSet::new());
        for (at, job) in changed(&self.pool, pos, EVENTS_MAX).await? {
            if jobs.len() == BATCH && !jobs.contains(&job) {
                break;
            }
            jobs.insert(job);
            to_pos = at;
        }
        if jobs.is_empty() {
            if todo <= 0 {
                return Ok(IndexProgress::Complete(Position(pos)));
            }
            to_todo = todo.saturating_sub_unsigned(BATCH as u64).max(0);
            jobs = (to_todo + 1..=todo).collect();
        }
        let numbers: Vec<i64> = jobs.into_iter().collect();
        let batch = Batch::of(&self.pool.rows(JOBS_BY_NUMBER, &[&numbers]).await?)?;
        let (from_pos, to_pos, failure) = (stored(pos), stored(to_pos), SearchTerm::UNATTENDED_FAILURE.0);
        let params: [&(dyn ToSql + Sync); 8] =
            [&to_pos, &to_todo, &from_pos, &todo, &batch.terms, &batch.numbers, &batch.attended, &failure];
        match self.pool.execute(ADD, &params).await {
            // The next call reads how far the index is.
            Ok(_) | Err(CommitError::Unknown | CommitError::Stale) => Ok(IndexProgress::Behind),
            Err(CommitError::Store(error)) => Err(error),
        }
    }
}

/// The rows of a batch.
#[derive(Default)]
struct Batch {
    terms: Vec<i64>,
    numbers: Vec<i64>,
    /// Jobs that are no failures, or that an operator has attended to.
    attended: Vec<i64>,
}

impl Batch {
    fn of(rows: &[Row]) -> Result<Self, StoreError> {
        let mut batch = Self::default();
        let mut pairs = BTreeSet::new();
        for row in rows {
            let n: i64 = column(row, 4)?;
            // No list shows an unreadable job.
            let Ok(job) = versioned_job(row) else { continue };
            let terms = search_terms(&job.value);
            if !terms.contains(&SearchTerm::UNATTENDED_FAILURE) {
                batch.attended.push(n);
            }
            pairs.extend(terms.into_iter().map(|SearchTerm(term)| (term, n)));
        }
        // In order of the index, so that two transactions cannot deadlock.
        (batch.terms, batch.numbers) = pairs.into_iter().unzip();
        Ok(batch)
    }
}

//! The search index: the terms of each job. It is written in batches, after the jobs, so that their commits do not wait
//! for it; until then, lists read what it lacks from the log.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{IndexProgress, Position, SearchTerm, StoreError, search_terms};
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::list::SUMMARY;
use super::row::{counter, is_unreadable, stored, versioned_job};
use super::unit::{ApplyOutcome, Unit};
use crate::intersection::Unindexed;

pub(super) const STATE: &str = "SELECT pos, todo FROM fleet_index WHERE id = 1";
pub(super) const CHANGED: &str = "SELECT pos, job FROM fleet_events WHERE pos > ?1 ORDER BY pos LIMIT ?2";
pub(super) const ADVANCE: &str = "UPDATE fleet_index SET pos = ?1, todo = ?2 WHERE id = 1 AND pos = ?3 AND todo = ?4";
pub(super) const ADD: &str = "INSERT INTO fleet_terms (term, n) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
pub(super) const REMOVE: &str = "DELETE FROM fleet_terms WHERE term = ?1 AND n = ?2";

/// Jobs per batch: a transaction of one or two milliseconds, because the commits of jobs wait for it.
const BATCH: usize = 96;

/// Events that are read for a batch.
const EVENTS_MAX: usize = 1_024;

/// Events that a list reads to find the jobs that changed since. With more, it does not use the index.
const LAG_MAX: usize = 8_192;

/// How far the index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IndexState {
    /// Changes up to this position are in the index.
    pos: u64,
    /// Jobs up to this number are not.
    todo: i64,
}

/// A batch for the index.
pub(super) struct IndexUnit {
    from: IndexState,
    to: IndexState,
    add: BTreeSet<(SearchTerm, i64)>,
    /// Failures that an operator has attended to.
    remove: Vec<i64>,
}

/// What the index lacks; `None` if that is too much to read.
pub(super) fn unindexed(connection: &Connection) -> rusqlite::Result<Option<Unindexed>> {
    let Some(state) = state(connection)? else { return Ok(None) };
    let events = changed(connection, state.pos, LAG_MAX)?;
    if events.len() >= LAG_MAX {
        return Ok(None);
    }
    let jobs: BTreeSet<i64> = events.into_iter().map(|(_, job)| job).collect();
    let changed: Arc<[i64]> = jobs.into_iter().rev().collect();
    Ok(Some(Unindexed { changed, through: state.todo }))
}

fn state(connection: &Connection) -> rusqlite::Result<Option<IndexState>> {
    let read = |row: &rusqlite::Row<'_>| Ok(IndexState { pos: counter(row, 0)?, todo: row.get(1)? });
    connection.prepare_cached(STATE)?.query_row([], read).optional()
}

/// Positions and jobs of the events after a position.
fn changed(connection: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<(u64, i64)>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(CHANGED)?;
    statement.query_map(params![stored(after), limit], |row| Ok((counter(row, 0)?, row.get(1)?)))?.collect()
}

/// The next batch, or how far the index is.
fn next_batch(connection: &Connection) -> rusqlite::Result<Result<IndexUnit, IndexProgress>> {
    let snapshot = connection.unchecked_transaction()?;
    let Some(from) = state(&snapshot)? else { return Ok(Err(IndexProgress::KeptByWrites)) };
    let events = changed(&snapshot, from.pos, EVENTS_MAX)?;
    let mut to = from;
    let mut jobs = BTreeSet::new();
    for (pos, job) in events {
        if jobs.len() == BATCH && !jobs.contains(&job) {
            break;
        }
        jobs.insert(job);
        to.pos = pos;
    }
    if jobs.is_empty() {
        if from.todo <= 0 {
            return Ok(Err(IndexProgress::Complete(Position(from.pos))));
        }
        to.todo = from.todo.saturating_sub_unsigned(BATCH as u64).max(0);
        jobs = (to.todo + 1..=from.todo).collect();
    }
    let mut unit = IndexUnit { from, to, add: BTreeSet::new(), remove: Vec::new() };
    for n in jobs {
        match snapshot.prepare_cached(SUMMARY)?.query_row([n], versioned_job).optional() {
            Ok(Some(job)) => unit.index(n, &search_terms(&job.value)),
            Ok(None) => {}
            // No list shows an unreadable job.
            Err(error) if is_unreadable(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Ok(unit))
}

impl IndexUnit {
    fn index(&mut self, n: i64, terms: &BTreeSet<SearchTerm>) {
        self.add.extend(terms.iter().map(|term| (*term, n)));
        if !terms.contains(&SearchTerm::UNATTENDED_FAILURE) {
            self.remove.push(n);
        }
    }

    pub(super) fn apply(&self, connection: &Connection) -> rusqlite::Result<ApplyOutcome> {
        let (from, to) = (self.from, self.to);
        let mut advance = connection.prepare_cached(ADVANCE)?;
        if advance.execute(params![stored(to.pos), to.todo, stored(from.pos), from.todo])? == 0 {
            return Ok(ApplyOutcome::Stale);
        }
        let mut add = connection.prepare_cached(ADD)?;
        for (term, n) in &self.add {
            add.execute(params![term.0, n])?;
        }
        let mut remove = connection.prepare_cached(REMOVE)?;
        for n in &self.remove {
            remove.execute(params![SearchTerm::UNATTENDED_FAILURE.0, n])?;
        }
        Ok(ApplyOutcome::Written(domain::Revision(0)))
    }
}

impl SqliteStore {
    pub(super) async fn index_next(&self) -> Result<IndexProgress, StoreError> {
        self.meter.index_steps.add(1);
        let unit = match self.readers.ask(next_batch).await? {
            Ok(unit) => unit,
            Err(progress) => return Ok(progress),
        };
        match self.writer.write(vec![Unit::Index(Box::new(unit))]).await.pop() {
            Some(Err(domain::CommitError::Store(error))) => Err(error),
            // The next call reads how far the index is.
            _ => Ok(IndexProgress::Behind),
        }
    }
}

//! Queries about jobs, and the event log.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Body, Cursor, EventSeq, IndexProgress, JobFilter, JobHistory, JobId, Page, Position, ProductId, Run, Scope,
    StageName, StoreError, StoredEvent, Summary,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::row::{counter, is_unreadable, job_id, parsed, stored, unreadable};
use super::{SqliteStore, list};
use crate::cursor::ListPosition;

pub(super) const BODY: &str = "\
    SELECT b.body_md FROM fleet_jobs j JOIN fleet_bodies b ON b.n = j.n WHERE j.id = ?1";
pub(super) const EVENTS: &str = "\
    SELECT e.pos, e.doc, j.id, e.product, e.seq FROM fleet_events e JOIN fleet_jobs j ON j.n = e.job
    WHERE e.pos > ?1 ORDER BY e.pos LIMIT ?2";
pub(super) const SPANS: &str = "\
    SELECT first, last FROM fleet_event_spans WHERE product = ?1 AND last > ?2 ORDER BY last LIMIT ?3";
pub(super) const EVENTS_OF_SPAN: &str = "\
    SELECT e.pos, e.doc, j.id, e.product, e.seq FROM fleet_events e JOIN fleet_jobs j ON j.n = e.job
    WHERE e.pos BETWEEN ?1 AND ?2 AND e.product = ?3 ORDER BY e.pos LIMIT ?4";
pub(super) const LATEST: &str = "SELECT latest FROM fleet_jobs WHERE id = ?1";
pub(super) const EVENT: &str = "\
    SELECT e.pos, e.doc, j.id, e.product, e.seq, e.before FROM fleet_events e JOIN fleet_jobs j ON j.n = e.job
    WHERE e.pos = ?1";
pub(super) const RUNS: &str = "\
    SELECT r.doc FROM fleet_jobs j JOIN fleet_runs r ON r.job = j.n WHERE j.id = ?1 AND r.n > ?2
    ORDER BY r.n LIMIT ?3";
/// Reads the whole table, which is as long as the result.
pub(super) const CENSUS: &str = "SELECT product, stage, n FROM fleet_counts WHERE n > 0";

#[async_trait]
impl JobHistory for SqliteStore {
    async fn body(&self, id: JobId) -> Result<Option<Body>, StoreError> {
        self.meter.history_reads.add(1);
        self.readers
            .ask(move |connection| {
                let mut statement = connection.prepare_cached(BODY)?;
                let body = statement.query_row([id.as_bytes()], |row| row.get::<_, Option<Arc<str>>>(0)).optional()?;
                Ok(body.flatten().map(Body))
            })
            .await
    }

    async fn jobs(&self, filter: &JobFilter, after: Option<Cursor>, limit: u16) -> Result<Page<Summary>, StoreError> {
        let after = ListPosition::after(after.as_ref())?;
        self.meter.history_reads.add(1);
        let filter = filter.clone();
        let quarantine = Arc::clone(&self.quarantine);
        let page =
            self.readers.list(move |connection| list::page(connection, &quarantine, &filter, after, limit)).await?;
        page.ok_or(StoreError::BadCursor)
    }

    async fn events(&self, scope: &Scope, after: Position, limit: u16) -> Result<Vec<StoredEvent>, StoreError> {
        if let Some(events) = self.recent.after(scope, after, *self.end.borrow(), limit) {
            return Ok(events);
        }
        self.meter.history_reads.add(1);
        let scope = scope.clone();
        self.readers
            .ask(move |connection| match &scope {
                Scope::Fleet => recorded(connection, EVENTS, params![stored(after.0), limit]),
                Scope::Job(id) => events_of_job(connection, *id, after, limit),
                Scope::Products(products) => events_of_products(connection, products, after, limit),
            })
            .await
    }

    async fn runs(&self, id: JobId, after: u32, limit: u16) -> Result<Vec<Run>, StoreError> {
        self.meter.history_reads.add(1);
        let quarantine = Arc::clone(&self.quarantine);
        self.readers
            .ask(move |connection| {
                let mut statement = connection.prepare_cached(RUNS)?;
                let read = |row: &Row<'_>| serde_json::from_str(row.get_ref(0)?.as_str()?).map_err(unreadable(0));
                let runs = statement.query_map(params![id.as_bytes(), after, limit], read)?;
                readable(runs, |error| quarantine.add("fleet_runs", &id.to_string(), error))
            })
            .await
    }

    async fn census(&self) -> Result<Vec<(ProductId, StageName, u64)>, StoreError> {
        self.meter.history_reads.add(1);
        let quarantine = Arc::clone(&self.quarantine);
        self.readers
            .ask(move |connection| {
                let mut statement = connection.prepare_cached(CENSUS)?;
                let read = |row: &Row<'_>| Ok((parsed(row, 0)?, parsed(row, 1)?, counter(row, 2)?));
                let rows = statement.query_map([], read)?;
                let mut counts = readable(rows, |error| quarantine.add("fleet_counts", "a product or stage", error))?;
                counts.sort_unstable();
                Ok(counts)
            })
            .await
    }

    async fn index_jobs(&self) -> Result<IndexProgress, StoreError> {
        self.index_next().await
    }

    fn operations(&self) -> Vec<(&'static str, u64)> {
        Self::operations(self).by_kind().to_vec()
    }
}

/// The readable rows; unreadable ones are quarantined.
fn readable<T>(
    rows: impl Iterator<Item = rusqlite::Result<T>>,
    note: impl Fn(&rusqlite::Error),
) -> rusqlite::Result<Vec<T>> {
    let mut all = Vec::new();
    for row in rows {
        match row {
            Ok(row) => all.push(row),
            Err(error) if is_unreadable(&error) => note(&error),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// A job's events, from the latest backwards: each event stores the position of the previous one.
fn events_of_job(
    connection: &Connection,
    id: JobId,
    after: Position,
    limit: u16,
) -> rusqlite::Result<Vec<StoredEvent>> {
    let latest = connection.prepare_cached(LATEST)?.query_row([id.as_bytes()], |row| counter(row, 0)).optional()?;
    let mut statement = connection.prepare_cached(EVENT)?;
    let (mut next, mut events) = (latest.unwrap_or(0), VecDeque::new());
    while next > after.0 {
        let (event, before) = statement.query_row([stored(next)], |row| Ok((recorded_row(row)?, counter(row, 5)?)))?;
        events.push_front(event);
        events.truncate(usize::from(limit));
        next = before;
    }
    Ok(events.into())
}

/// Each product's events are in order of position; the first `limit` of all products are among the first of each.
fn events_of_products(
    connection: &Connection,
    products: &[ProductId],
    after: Position,
    limit: u16,
) -> rusqlite::Result<Vec<StoredEvent>> {
    let mut events = Vec::new();
    for product in products {
        events.extend(events_of_product(connection, product, after, limit)?);
    }
    events.sort_unstable_by_key(|event| event.position);
    events.dedup_by_key(|event| event.position);
    events.truncate(usize::from(limit));
    Ok(events)
}

/// The events of the transactions that contain events of a product.
fn events_of_product(
    connection: &Connection,
    product: &ProductId,
    after: Position,
    limit: u16,
) -> rusqlite::Result<Vec<StoredEvent>> {
    let mut events = Vec::new();
    let mut statement = connection.prepare_cached(SPANS)?;
    let mut spans = statement.query(params![product.as_str(), stored(after.0), limit])?;
    while let Some(span) = spans.next()? {
        let (first, last) = (counter(span, 0)?.max(after.0 + 1), counter(span, 1)?);
        let room = usize::from(limit).saturating_sub(events.len());
        if room == 0 {
            break;
        }
        let params = params![stored(first), stored(last), product.as_str(), stored(room as u64)];
        events.extend(recorded(connection, EVENTS_OF_SPAN, params)?);
    }
    Ok(events)
}

fn recorded(connection: &Connection, sql: &str, params: impl Params) -> rusqlite::Result<Vec<StoredEvent>> {
    connection.prepare_cached(sql)?.query_map(params, recorded_row)?.collect()
}

/// An event from its columns `pos`, `doc`, the job's id, `product`, `seq`, in this order.
fn recorded_row(row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
    Ok(StoredEvent {
        position: Position(counter(row, 0)?),
        json: row.get(1)?,
        job: job_id(row, 2)?,
        product: parsed(row, 3)?,
        seq: EventSeq(counter(row, 4)?),
    })
}

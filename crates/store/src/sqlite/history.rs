//! What people and programs read about jobs.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Body, Cursor, EventSeq, JobFilter, JobHistory, JobId, Page, Position, ProductId, Recorded, Run, Scope, StageName,
    StoreError, Summary,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::row::{counter, job_id, parsed, stored, unreadable};
use super::{Sqlite, list};
use crate::cursor::Place;

pub(super) const BODY: &str = "\
    SELECT b.body_md FROM fleet_jobs j JOIN fleet_bodies b ON b.n = j.n WHERE j.id = ?1";
pub(super) const EVENTS: &str = "\
    SELECT e.pos, e.doc, j.id, e.product, e.seq FROM fleet_events e JOIN fleet_jobs j ON j.n = e.job
    WHERE e.pos > ?1 ORDER BY e.pos LIMIT ?2";
pub(super) const EVENTS_OF_PRODUCT: &str = "\
    SELECT e.pos, e.doc, j.id, e.product, e.seq
    FROM fleet_events e INDEXED BY fleet_events_of_product JOIN fleet_jobs j ON j.n = e.job
    WHERE e.product = ?3 AND e.pos > ?1 ORDER BY e.pos LIMIT ?2";
pub(super) const EVENTS_OF_JOB: &str = "\
    SELECT e.pos, e.doc, j.id, e.product, e.seq FROM fleet_jobs j JOIN fleet_events e ON e.job = j.n
    WHERE j.id = ?3 AND e.pos > ?1 ORDER BY e.seq LIMIT ?2";
pub(super) const RUNS: &str = "\
    SELECT r.doc FROM fleet_jobs j JOIN fleet_runs r ON r.job = j.n WHERE j.id = ?1 ORDER BY r.n";
/// Reads the whole table, which is no longer than the answer.
pub(super) const CENSUS: &str = "SELECT product, stage, n FROM fleet_counts WHERE n > 0";

#[async_trait]
impl JobHistory for Sqlite {
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
        let after = Place::after(after.as_ref())?;
        self.meter.history_reads.add(1);
        let filter = filter.clone();
        self.readers.ask(move |connection| list::page(connection, &filter, after, limit)).await
    }

    async fn events(&self, scope: &Scope, after: Position, limit: u16) -> Result<Vec<Recorded>, StoreError> {
        self.meter.history_reads.add(1);
        let scope = scope.clone();
        let after = stored(after.0);
        self.readers
            .ask(move |connection| match &scope {
                Scope::Fleet => recorded(connection, EVENTS, params![after, limit]),
                Scope::Job(id) => recorded(connection, EVENTS_OF_JOB, params![after, limit, id.as_bytes()]),
                Scope::Products(products) => events_of_products(connection, products, after, limit),
            })
            .await
    }

    async fn runs(&self, id: JobId) -> Result<Vec<Run>, StoreError> {
        self.meter.history_reads.add(1);
        self.readers
            .ask(move |connection| {
                let mut statement = connection.prepare_cached(RUNS)?;
                let read = |row: &Row<'_>| serde_json::from_str(row.get_ref(0)?.as_str()?).map_err(unreadable(0));
                statement.query_map([id.as_bytes()], read)?.collect()
            })
            .await
    }

    async fn census(&self) -> Result<Vec<(ProductId, StageName, u64)>, StoreError> {
        self.meter.history_reads.add(1);
        self.readers
            .ask(|connection| {
                let mut statement = connection.prepare_cached(CENSUS)?;
                let read = |row: &Row<'_>| Ok((parsed(row, 0)?, parsed(row, 1)?, counter(row, 2)?));
                let mut counts = statement.query_map([], read)?.collect::<rusqlite::Result<Vec<_>>>()?;
                counts.sort_unstable();
                Ok(counts)
            })
            .await
    }

    fn operations(&self) -> Vec<(&'static str, u64)> {
        Self::operations(self).by_kind().to_vec()
    }
}

/// Each product's events are in order of position already; the first `limit` of all of them are among the first of each.
fn events_of_products(
    connection: &Connection,
    products: &[ProductId],
    after: i64,
    limit: u16,
) -> rusqlite::Result<Vec<Recorded>> {
    let mut events = Vec::new();
    for product in products {
        events.extend(recorded(connection, EVENTS_OF_PRODUCT, params![after, limit, product.as_str()])?);
    }
    events.sort_unstable_by_key(|event| event.position);
    events.dedup_by_key(|event| event.position);
    events.truncate(usize::from(limit));
    Ok(events)
}

fn recorded(connection: &Connection, sql: &str, params: impl Params) -> rusqlite::Result<Vec<Recorded>> {
    let read = |row: &Row<'_>| {
        Ok(Recorded {
            position: Position(counter(row, 0)?),
            json: row.get(1)?,
            job: job_id(row, 2)?,
            product: parsed(row, 3)?,
            seq: EventSeq(counter(row, 4)?),
        })
    };
    connection.prepare_cached(sql)?.query_map(params, read)?.collect()
}

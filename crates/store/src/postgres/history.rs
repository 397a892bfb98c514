//! Queries about jobs, and the event log.

use std::collections::BTreeSet;

use async_trait::async_trait;
use domain::{
    Body, Cursor, EventSeq, IndexProgress, JobFilter, JobHistory, JobId, Page, Position, ProductId, Run, Scope,
    StageName, StoreError, StoredEvent, Summary,
};
use tokio_postgres::Row;

use super::row::{column, counter, document, job_id, parsed, stored, unreadable, uuid};
use super::{PostgresStore, list};
use crate::cursor::ListPosition;

pub(super) const BODY: &str = "\
    SELECT b.body_md FROM fleet_jobs j JOIN fleet_bodies b ON b.n = j.n WHERE j.id = $1";
pub(super) const EVENTS: &str = "\
    SELECT e.pos, e.doc, b.id, e.product, e.seq FROM fleet_events e JOIN fleet_bodies b ON b.n = e.job
    WHERE e.pos > $1 ORDER BY e.pos LIMIT $2";
/// Each product's transactions are in order; the first events of all products are among the first of each.
pub(super) const EVENTS_OF_PRODUCTS: &str = "\
    SELECT f.pos, f.doc, f.id, f.product, f.seq FROM unnest($3::text[]) AS p (product)
    CROSS JOIN LATERAL (
        SELECT e.pos, e.doc, b.id, e.product, e.seq
        FROM (SELECT first, last FROM fleet_event_spans WHERE product = p.product AND last > $1 ORDER BY last LIMIT $2) s
        CROSS JOIN LATERAL (
            SELECT * FROM fleet_events
            WHERE pos BETWEEN greatest(s.first, $1 + 1) AND s.last AND product = p.product ORDER BY pos LIMIT $2
        ) e JOIN fleet_bodies b ON b.n = e.job
        ORDER BY s.last, e.pos LIMIT $2
    ) f ORDER BY f.pos LIMIT $2";
/// From the latest backwards: each event stores the position of the previous one.
pub(super) const EVENTS_OF_JOB: &str = "\
    WITH RECURSIVE told AS (
        SELECT e.pos, e.before FROM fleet_jobs j JOIN fleet_events e ON e.pos = j.latest WHERE j.id = $3 AND e.pos > $1
        UNION ALL
        SELECT e.pos, e.before FROM told t JOIN fleet_events e ON e.pos = t.before WHERE e.pos > $1
    )
    SELECT e.pos, e.doc, $3, e.product, e.seq FROM told t JOIN fleet_events e ON e.pos = t.pos ORDER BY t.pos LIMIT $2";
pub(super) const RUNS: &str = "\
    SELECT r.doc FROM fleet_jobs j JOIN fleet_runs r ON r.job = j.n WHERE j.id = $1 AND r.n > $2
    ORDER BY r.n LIMIT $3";
/// Reads the whole table, which is as long as the result.
pub(super) const CENSUS: &str = "SELECT product, stage, n FROM fleet_counts WHERE n > 0";

#[async_trait]
impl JobHistory for PostgresStore {
    async fn body(&self, id: JobId) -> Result<Option<Body>, StoreError> {
        self.meter.history_reads.add(1);
        let rows = self.pool.rows(BODY, &[&uuid(id)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        if column::<Option<&[u8]>>(row, 0)?.is_none() {
            return Ok(None);
        }
        Ok(Some(Body(document(row, 0)?.into())))
    }

    async fn jobs(&self, filter: &JobFilter, after: Option<Cursor>, limit: u16) -> Result<Page<Summary>, StoreError> {
        let after = ListPosition::after(after.as_ref())?;
        self.meter.history_reads.add(1);
        list::page(&self.pool, &self.quarantine, filter, after, limit).await
    }

    async fn events(&self, scope: &Scope, after: Position, limit: u16) -> Result<Vec<StoredEvent>, StoreError> {
        if let Some(events) = self.recent.after(scope, after, self.end.position(), limit) {
            return Ok(events);
        }
        self.meter.history_reads.add(1);
        let (after, limit) = (stored(after.0), i64::from(limit));
        let rows = match scope {
            Scope::Fleet => self.pool.rows(EVENTS, &[&after, &limit]).await?,
            Scope::Job(id) => self.pool.rows(EVENTS_OF_JOB, &[&after, &limit, &uuid(*id)]).await?,
            Scope::Products(products) => {
                let products: BTreeSet<&str> = products.iter().map(ProductId::as_str).collect();
                let products: Vec<&str> = products.into_iter().collect();
                self.pool.rows(EVENTS_OF_PRODUCTS, &[&after, &limit, &products]).await?
            }
        };
        rows.iter().map(recorded).collect()
    }

    async fn runs(&self, id: JobId, after: u32, limit: u16) -> Result<Vec<Run>, StoreError> {
        self.meter.history_reads.add(1);
        let (after, limit) = (i32::try_from(after).unwrap_or(i32::MAX), i64::from(limit));
        let rows = self.pool.rows(RUNS, &[&uuid(id), &after, &limit]).await?;
        let read = |row: &Row| serde_json::from_str(document(row, 0)?).map_err(unreadable);
        Ok(readable(rows.iter().map(read), |error| self.quarantine.add("fleet_runs", &id.to_string(), error)))
    }

    async fn census(&self) -> Result<Vec<(ProductId, StageName, u64)>, StoreError> {
        self.meter.history_reads.add(1);
        let rows = self.pool.rows(CENSUS, &[]).await?;
        let read = |row: &Row| Ok((parsed(row, 0)?, parsed(row, 1)?, counter(row, 2)?));
        let note = |error: &StoreError| self.quarantine.add("fleet_counts", "a product or stage", error);
        let mut counts = readable(rows.iter().map(read), note);
        counts.sort_unstable();
        Ok(counts)
    }

    async fn index_jobs(&self) -> Result<IndexProgress, StoreError> {
        self.index_next().await
    }

    fn operations(&self) -> Vec<(&'static str, u64)> {
        Self::operations(self).by_kind().to_vec()
    }
}

/// The readable rows; unreadable ones are quarantined.
fn readable<T>(rows: impl Iterator<Item = Result<T, StoreError>>, note: impl Fn(&StoreError)) -> Vec<T> {
    rows.filter_map(|row| row.inspect_err(&note).ok()).collect()
}

fn recorded(row: &Row) -> Result<StoredEvent, StoreError> {
    Ok(StoredEvent {
        position: Position(counter(row, 0)?),
        json: document(row, 1)?.into(),
        job: job_id(row, 2)?,
        product: parsed(row, 3)?,
        seq: EventSeq(counter(row, 4)?),
    })
}

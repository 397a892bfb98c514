//! What people and programs read about jobs.

use std::collections::BTreeSet;

use async_trait::async_trait;
use domain::{
    Body, Cursor, EventSeq, JobFilter, JobHistory, JobId, Page, Position, ProductId, Recorded, Run, Scope, StageName,
    StoreError, Summary,
};
use tokio_postgres::Row;

use super::row::{column, counter, document, job_id, parsed, stored, unreadable, uuid};
use super::{Postgres, list};
use crate::cursor::Place;

pub(super) const BODY: &str = "SELECT body_md FROM fleet_bodies WHERE id = $1";
pub(super) const EVENTS: &str = "\
    SELECT pos, doc, job, product, seq FROM fleet_events WHERE pos > $1 ORDER BY pos LIMIT $2";
pub(super) const EVENTS_OF_PRODUCTS: &str = "\
    SELECT e.pos, e.doc, e.job, e.product, e.seq FROM unnest($3::text[]) AS p (product)
    CROSS JOIN LATERAL (
        SELECT pos, doc, job, product, seq FROM fleet_events
        WHERE product = p.product AND pos > $1 ORDER BY pos LIMIT $2
    ) e ORDER BY e.pos LIMIT $2";
pub(super) const EVENTS_OF_JOB: &str = "\
    SELECT pos, doc, job, product, seq FROM fleet_events WHERE job = $3 AND pos > $1 ORDER BY seq LIMIT $2";
pub(super) const RUNS: &str = "SELECT doc FROM fleet_runs WHERE job = $1 ORDER BY n";
/// Reads the whole table, which is no longer than the answer.
pub(super) const CENSUS: &str = "SELECT product, stage, n FROM fleet_counts WHERE n > 0";

#[async_trait]
impl JobHistory for Postgres {
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
        let after = Place::after(after.as_ref())?;
        self.meter.history_reads.add(1);
        list::page(&self.pool, filter, after, limit).await
    }

    async fn events(&self, scope: &Scope, after: Position, limit: u16) -> Result<Vec<Recorded>, StoreError> {
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

    async fn runs(&self, id: JobId) -> Result<Vec<Run>, StoreError> {
        self.meter.history_reads.add(1);
        let rows = self.pool.rows(RUNS, &[&uuid(id)]).await?;
        rows.iter().map(|row| serde_json::from_str(document(row, 0)?).map_err(unreadable)).collect()
    }

    async fn census(&self) -> Result<Vec<(ProductId, StageName, u64)>, StoreError> {
        self.meter.history_reads.add(1);
        let rows = self.pool.rows(CENSUS, &[]).await?;
        let read = |row: &Row| Ok((parsed(row, 0)?, parsed(row, 1)?, counter(row, 2)?));
        let mut counts = rows.iter().map(read).collect::<Result<Vec<_>, StoreError>>()?;
        counts.sort_unstable();
        Ok(counts)
    }

    fn operations(&self) -> Vec<(&'static str, u64)> {
        Self::operations(self).by_kind().to_vec()
    }
}

fn recorded(row: &Row) -> Result<Recorded, StoreError> {
    Ok(Recorded {
        position: Position(counter(row, 0)?),
        json: document(row, 1)?.into(),
        job: job_id(row, 2)?,
        product: parsed(row, 3)?,
        seq: EventSeq(counter(row, 4)?),
    })
}

//! Small documents by key. They change rarely, so each change is its own statement and flush.

use async_trait::async_trait;
use domain::{Collection, CommitError, Expected, FleetStore, Revision, StoreError, Versioned};
use serde_json::Value;
use tokio_postgres::Row;

use super::PostgresStore;
use super::leadership::{TERM, deposed};
use super::row::{column, counter, stored};

pub(super) const DOCUMENT: &str = "SELECT rev, doc FROM fleet_documents WHERE collection = $1 AND key = $2";
pub(super) const DOCUMENTS: &str = "SELECT rev, doc, key FROM fleet_documents WHERE collection = $1 ORDER BY key";
/// Each statement checks the term: it locks the log's row until the flush, so that the leadership cannot change in
/// between.
pub(super) const CREATE_DOCUMENT: &str = "\
    WITH ours AS (SELECT term FROM fleet_log WHERE term = coalesce($3, term) FOR SHARE)
    INSERT INTO fleet_documents (collection, key, rev, doc) SELECT $1, $2, 1, $4 FROM ours
    ON CONFLICT (collection, key) DO NOTHING";
pub(super) const REPLACE_DOCUMENT: &str = "\
    WITH ours AS (SELECT term FROM fleet_log WHERE term = coalesce($3, term) FOR SHARE)
    UPDATE fleet_documents SET rev = rev + 1, doc = $5 FROM ours WHERE collection = $1 AND key = $2 AND rev = $4";
pub(super) const REMOVE_DOCUMENT: &str = "\
    WITH ours AS (SELECT term FROM fleet_log WHERE term = coalesce($3, term) FOR SHARE)
    DELETE FROM fleet_documents USING ours WHERE collection = $1 AND key = $2 AND rev = $4";

#[async_trait]
impl FleetStore for PostgresStore {
    async fn document(&self, collection: Collection, key: &str) -> Result<Option<Versioned<Value>>, StoreError> {
        self.meter.document_reads.add(1);
        let rows = self.pool.rows(DOCUMENT, &[&collection.name(), &key]).await?;
        rows.first().map(versioned).transpose()
    }

    async fn put(
        &self,
        collection: Collection,
        key: &str,
        expected: Expected,
        document: Option<Value>,
    ) -> Result<Revision, CommitError> {
        if self.tenure.is_lost() {
            return Err(deposed().into());
        }
        let (name, term) = (collection.name(), self.tenure.term());
        let doc = document.map(|document| document.to_string().into_bytes());
        let written = match (expected, &doc) {
            (Expected::Absent, Some(doc)) => self.pool.execute(CREATE_DOCUMENT, &[&name, &key, &term, doc]).await? == 1,
            (Expected::At(revision), Some(doc)) => {
                self.pool.execute(REPLACE_DOCUMENT, &[&name, &key, &term, &stored(revision.0), doc]).await? == 1
            }
            (Expected::At(revision), None) => {
                self.pool.execute(REMOVE_DOCUMENT, &[&name, &key, &term, &stored(revision.0)]).await? == 1
            }
            // Removing an absent document succeeds.
            (Expected::Absent, None) => self.pool.rows(DOCUMENT, &[&name, &key]).await?.is_empty(),
        };
        self.meter.transactions.add(1);
        self.meter.document_units.add(1);
        if written {
            return Ok(expected.next());
        }
        self.meter.stale_units.add(1);
        match self.still_ours().await? {
            true => Err(CommitError::Stale),
            false => Err(deposed().into()),
        }
    }

    async fn documents(&self, collection: Collection) -> Result<Vec<(String, Versioned<Value>)>, StoreError> {
        self.meter.document_reads.add(1);
        let rows = self.pool.rows(DOCUMENTS, &[&collection.name()]).await?;
        rows.iter().map(|row| Ok((column(row, 2)?, versioned(row)?))).collect()
    }
}

impl PostgresStore {
    /// Reports whether a write failed because of the stored revision, rather than because the leadership was lost.
    async fn still_ours(&self) -> Result<bool, StoreError> {
        let Some(term) = self.tenure.term() else { return Ok(true) };
        let rows = self.pool.rows(TERM, &[]).await?;
        let is_ours = rows.first().is_some_and(|row| row.try_get(0).is_ok_and(|found: i64| found == term));
        if !is_ours {
            self.tenure.lose();
        }
        Ok(is_ours)
    }
}

fn versioned(row: &Row) -> Result<Versioned<Value>, StoreError> {
    // Invalid JSON is returned as text: the caller that expects a document reports it, and the other documents load.
    let text = String::from_utf8_lossy(column(row, 1)?);
    let value = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned()));
    Ok(Versioned { value, revision: Revision(counter(row, 0)?) })
}

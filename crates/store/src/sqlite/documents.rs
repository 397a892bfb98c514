//! Small documents by key.

use async_trait::async_trait;
use domain::{Collection, CommitError, Expected, FleetStore, Revision, StoreError, Versioned};
use rusqlite::{OptionalExtension, Row, params};
use serde_json::Value;

use super::SqliteStore;
use super::row::counter;
use super::unit::{DocumentUnit, Unit};

pub(super) const DOCUMENT: &str = "SELECT rev, doc FROM fleet_documents WHERE collection = ?1 AND key = ?2";
pub(super) const DOCUMENTS: &str = "SELECT rev, doc, key FROM fleet_documents WHERE collection = ?1 ORDER BY key";

#[async_trait]
impl FleetStore for SqliteStore {
    async fn document(&self, collection: Collection, key: &str) -> Result<Option<Versioned<Value>>, StoreError> {
        self.meter.document_reads.add(1);
        let key = key.to_owned();
        self.readers
            .ask(move |connection| {
                connection.prepare_cached(DOCUMENT)?.query_row(params![collection.name(), key], versioned).optional()
            })
            .await
    }

    async fn put(
        &self,
        collection: Collection,
        key: &str,
        expected: Expected,
        document: Option<Value>,
    ) -> Result<Revision, CommitError> {
        let doc = document.map(|document| document.to_string());
        let unit = Unit::Document(DocumentUnit { collection, key: key.to_owned(), expected, doc });
        // One unit has one outcome; none means that the writer lost it.
        self.writer.write(vec![unit]).await.pop().unwrap_or(Err(CommitError::Unknown))
    }

    async fn documents(&self, collection: Collection) -> Result<Vec<(String, Versioned<Value>)>, StoreError> {
        self.meter.document_reads.add(1);
        self.readers
            .ask(move |connection| {
                let mut statement = connection.prepare_cached(DOCUMENTS)?;
                statement.query_map([collection.name()], |row| Ok((row.get(2)?, versioned(row)?)))?.collect()
            })
            .await
    }
}

fn versioned(row: &Row<'_>) -> rusqlite::Result<Versioned<Value>> {
    // Invalid JSON is returned as text: the caller that expects a document reports it, and the other documents load.
    let text = row.get_ref(1)?.as_str()?;
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    Ok(Versioned { value, revision: Revision(counter(row, 0)?) })
}

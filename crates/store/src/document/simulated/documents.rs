//! Small documents, each in its own partition. A removed document stays as a tombstone.

use async_trait::async_trait;
use domain::{Collection, CommitError, Expected, FleetStore, Revision, StoreError, Versioned};
use serde_json::Value;

use super::SimulatedDocumentStore;
use super::batch::{Condition, Op};
use super::database::{Document, Item, Key, Order, Query};
use super::items::{FLEET, LAST, number, unreadable};
use super::retry::WriteError;

#[async_trait]
impl FleetStore for SimulatedDocumentStore {
    async fn document(&self, collection: Collection, key: &str) -> Result<Option<Versioned<Value>>, StoreError> {
        match self.read(&document_key(collection, key)).await? {
            Some(item) => decode(&item),
            None => Ok(None),
        }
    }

    async fn put(
        &self,
        collection: Collection,
        key: &str,
        expected: Expected,
        document: Option<Value>,
    ) -> Result<Revision, CommitError> {
        let at = document_key(collection, key);
        let current = self.read(&at).await?;
        let there = current.as_ref().map(decode).transpose()?.flatten().map(|document| document.revision);
        let is_expected = match expected {
            Expected::Absent => there.is_none(),
            Expected::At(revision) => there == Some(revision),
        };
        if !is_expected {
            return Err(CommitError::Stale);
        }
        if there.is_none() && document.is_none() {
            return Ok(expected.next());
        }
        let former = current.as_ref().map_or(Ok(0), |item| number(item, "rev"))?;
        let next = Revision(former).next();
        let mut written = Document::default().with("rev", next.to_string()).with("key", key);
        if let Some(value) = document {
            written = written.with("json", value.to_string()).key("document", listed(collection, key));
        }
        let condition = current.map_or(Condition::Absent, |item| Condition::At(item.etag));
        let op = Op { id: at.id, condition, document: written };
        match self.patience.write(FLEET, &at.partition, &[op]).await {
            Ok(_) => Ok(next),
            Err(WriteError::Refused { .. }) => Err(CommitError::Stale),
            Err(WriteError::Unknown) => Err(CommitError::Unknown),
            Err(WriteError::Store(error)) => Err(error.into()),
        }
    }

    async fn documents(&self, collection: Collection) -> Result<Vec<(String, Versioned<Value>)>, StoreError> {
        let values = listed(collection, "")..=listed(collection, LAST);
        let query = Query { name: "document", values, order: Order::Rising, limit: usize::MAX };
        let mut documents = Vec::new();
        for item in self.query(&query).await? {
            if let Some(document) = decode(&item)? {
                documents.push((item.document.text("key").to_owned(), document));
            }
        }
        Ok(documents)
    }
}

fn document_key(collection: Collection, key: &str) -> Key {
    Key { container: FLEET, partition: listed(collection, key), id: "document".to_owned() }
}

fn listed(collection: Collection, key: &str) -> String {
    format!("{} {key}", collection.name())
}

/// Decodes an item; `None` for a tombstone.
fn decode(item: &Item) -> Result<Option<Versioned<Value>>, StoreError> {
    let Some(json) = item.document.fields.get("json") else { return Ok(None) };
    let value = serde_json::from_str(json).map_err(|error| unreadable(&item.key, error))?;
    Ok(Some(Versioned { value, revision: Revision(number(item, "rev")?) }))
}

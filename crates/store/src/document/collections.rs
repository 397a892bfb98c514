//! Small documents: one partition per collection. A removed document stays as a tombstone.

use async_trait::async_trait;
use domain::{Collection, CommitError, Expected, FleetStore, Revision, StoreError, Versioned};
use serde_json::Value;

use super::batch::Op;
use super::database::{Container, Document, Item, Key, Partition};
use super::items::{LAST, at, number};
use super::requests::WriteError;
use super::store::DocumentStore;

/// The product of documents that belong to the whole fleet.
const FLEET_PRODUCT: &str = "_fleet";

#[async_trait]
impl FleetStore for DocumentStore {
    async fn document(&self, collection: Collection, key: &str) -> Result<Option<Versioned<Value>>, StoreError> {
        match self.requests.read(&document_key(collection, key)).await? {
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
        let address = document_key(collection, key);
        let current = self.requests.read(&address).await?;
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
        let written = Document::of(Container::Fleet, &address.partition).with("key", key).with("rev", next.0);
        let written = written.with_some("document", document);
        let condition = at(current.as_ref().map(|item| &item.etag));
        let op = Op { id: address.id, condition, document: written };
        match self.requests.write(Container::Fleet, &address.partition, &[op]).await {
            Ok(_) => Ok(next),
            Err(WriteError::Refused { .. }) => Err(CommitError::Stale),
            Err(WriteError::Unknown) => Err(CommitError::Unknown),
            Err(WriteError::Store(error)) => Err(error.into()),
        }
    }

    async fn documents(&self, collection: Collection) -> Result<Vec<(String, Versioned<Value>)>, StoreError> {
        let ids = String::new()..=LAST.to_owned();
        let items = self.requests.range(Container::Fleet, &partition(collection), ids, usize::MAX).await?;
        let mut documents = Vec::new();
        for item in items {
            if let Some(document) = decode(&item)? {
                documents.push((item.document.text("key").to_owned(), document));
            }
        }
        // Ids are escaped, so their order is not that of the keys.
        documents.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(documents)
    }
}

fn partition(collection: Collection) -> Partition {
    Partition::of([FLEET_PRODUCT, collection.name()])
}

fn document_key(collection: Collection, key: &str) -> Key {
    Key { container: Container::Fleet, partition: partition(collection), id: escaped(key) }
}

/// A key as an id: ids may not contain `/`, `\`, `?` and `#`, and may not end with a space.
fn escaped(key: &str) -> String {
    let mut id = String::with_capacity(key.len());
    for c in key.chars() {
        match c {
            '/' | '\\' | '?' | '#' | '%' | ' ' => id.push_str(&format!("%{:02x}", u32::from(c))),
            c => id.push(c),
        }
    }
    id
}

/// Decodes an item; `None` for a tombstone.
fn decode(item: &Item) -> Result<Option<Versioned<Value>>, StoreError> {
    let Some(value) = item.document.get("document") else { return Ok(None) };
    Ok(Some(Versioned { value: value.clone(), revision: Revision(number(item, "rev")?) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_ids_that_every_database_accepts() {
        let ids = ["east", "acme/notes#12", "a%2fb", "a b?", "\\"].map(escaped);

        assert_eq!(ids, ["east", "acme%2fnotes%2312", "a%252fb", "a%20b%3f", "%5c"]);
    }
}

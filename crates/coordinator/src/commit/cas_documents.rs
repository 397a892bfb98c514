//! Small documents: read whole, written by compare-and-set, read again after a lost race.

use domain::{Collection, CommitError, Expected, Revision, StoreError, Versioned};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracing::warn;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::submit::invalid;

/// Retries of one document's write after time-outs, before the store counts as unavailable.
const PUT_ATTEMPTS_MAX: u32 = 8;

/// The outcome of a document write.
pub(crate) enum PutOutcome<T> {
    /// The document was written or removed.
    Written(Revision),
    /// Another writer was first: this is the current document.
    Lost(Option<Versioned<T>>),
}

impl Coordinator {
    /// Writes a document over the expected revision; `None` removes it. A writer that loses the race gets the current
    /// document, so that its next attempt starts from it.
    pub(crate) async fn put_document<T: Serialize + DeserializeOwned>(
        &self,
        collection: Collection,
        key: &str,
        mut expected: Expected,
        value: Option<&T>,
    ) -> Result<PutOutcome<T>, Error> {
        let document = value.map(serde_json::to_value).transpose();
        let document = document.map_err(|error| invalid("document", error.to_string()))?;
        let mut is_unknown = false;
        for _ in 0..PUT_ATTEMPTS_MAX {
            let written = self.ports.fleet.put(collection, key, expected, document.clone()).await;
            self.note_space(std::iter::once(&written));
            match written {
                Ok(revision) => {
                    self.quarantine.remove(collection, key);
                    return Ok(PutOutcome::Written(revision));
                }
                Err(CommitError::Store(error)) => return Err(error.into()),
                Err(CommitError::Unknown) => is_unknown = true,
                Err(CommitError::Stale) => {}
            }
            let found = self.ports.fleet.document(collection, key).await?;
            // A write whose answer was lost may have happened: a read decides (row 32).
            let has_happened = is_unknown && found.as_ref().map(|found| &found.value) == document.as_ref();
            if has_happened {
                return Ok(PutOutcome::Written(found.map_or_else(|| expected.next(), |found| found.revision)));
            }
            let there = found.as_ref().map_or(Expected::Absent, |found| Expected::At(found.revision));
            if !is_unknown || there != expected {
                let found = match found.map(|found| read(collection, key, found)).transpose() {
                    Ok(found) => found,
                    // A write over an unreadable document repairs it.
                    Err(error) => {
                        warn!("Replacing unreadable {} `{key}`: {error}", collection.name());
                        expected = there;
                        continue;
                    }
                };
                return Ok(PutOutcome::Lost(found));
            }
        }
        let why = format!("{} `{key}` was not written", collection.name());
        Err(StoreError::Unavailable(why).into())
    }

    /// All readable documents of a collection. Unreadable ones are kept, logged and listed by an alert.
    pub(crate) async fn documents<T: DeserializeOwned>(
        &self,
        collection: Collection,
    ) -> Result<Vec<(String, Versioned<T>)>, Error> {
        let documents = self.ports.fleet.documents(collection).await?;
        let mut all = Vec::with_capacity(documents.len());
        for (key, document) in documents {
            let revision = document.revision;
            match read(collection, &key, document) {
                Ok(document) => all.push((key, document)),
                Err(error) => self.quarantine.add(collection, &key, revision, &error, self.now()),
            }
        }
        Ok(all)
    }
}

/// The error for a lost race over a document.
pub(crate) fn is_conflict() -> Error {
    Error::NotReady("another request changed it: try again".to_owned())
}

fn read<T: DeserializeOwned>(
    collection: Collection,
    key: &str,
    document: Versioned<Value>,
) -> Result<Versioned<T>, StoreError> {
    let value = serde_json::from_value(document.value)
        .map_err(|error| StoreError::Corrupt(format!("{} `{key}`: {error}", collection.name())))?;
    Ok(Versioned { value, revision: document.revision })
}

//! The identity of a database: compared with the record on the coordinator's machine, to detect lost work (row 37).

use std::io;
use std::path::Path;

use domain::{
    Collection, CommitError, Expected, FleetStore, Generation, Position, StoreError, StoreGeneration, Timestamp,
};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::PostgresStore;
use crate::record::{DataLoss, RecordFile, StoreIdentity, StoreRecord, read_record};

/// The key of the store's own id in [`Collection::Meta`].
const ID_KEY: &str = "store";

/// Why a database was not compared with its record, or was refused.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The database lacks acknowledged work.
    #[error(transparent)]
    DataLoss(#[from] DataLoss),
    /// The record could not be read or written.
    #[error("cannot use the record of the store in the data directory")]
    Files(#[from] io::Error),
    /// The database could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database could not be written.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl PostgresStore {
    /// Compares the database with the record at `path`, assigns the id `fresh` if it has none, and starts its new
    /// record. A database that is behind its record is refused, unless an operator accepted the loss at the given
    /// time.
    pub async fn meet_record(
        &self,
        path: &Path,
        fresh: &str,
        accept: Option<Timestamp>,
    ) -> Result<RecordFile, RecordError> {
        let known = read_record(path)?;
        let mut found = self.read_identity().await?;
        let is_new = self.is_blank().await?;
        let loss = known.as_ref().and_then(|record| record.check(&found, path).err());
        match (&loss, accept) {
            (Some(loss), None) => return Err(loss.clone().into()),
            (Some(loss), Some(_)) => warn!("Accepted: {loss}"),
            (None, _) => {}
        }
        let replaced = known.map(|record| record.generation);
        if let Some(at) = accept.filter(|_| loss.is_some() || is_new) {
            let generation = Generation::restored(found.generation.unwrap_or_default(), replaced, at);
            let lineage = StoreGeneration { generation, restored_at: Some(at), as_of: None };
            self.put_meta(StoreGeneration::KEY, json!(lineage)).await?;
            info!(store.generation = %generation, "The store continues with generation {generation}");
            found.generation = Some(generation);
        }
        let store_id = match found.store_id {
            Some(id) => id,
            None => {
                self.put_meta(ID_KEY, json!({ "id": fresh })).await?;
                fresh.to_owned()
            }
        };
        let generation = found.generation.or(replaced).unwrap_or_default();
        let record = StoreRecord { store_id, generation, position: found.position, clean: None };
        Ok(RecordFile::create(path, record)?)
    }

    /// Resolves once the log is known to reach beyond `after`, with its end. Sends no query.
    pub async fn reached(&self, after: Position) -> Result<Position, StoreError> {
        self.end.reached(after).await
    }

    async fn read_identity(&self) -> Result<StoreIdentity, StoreError> {
        let id = self.document(Collection::Meta, ID_KEY).await?;
        let id = id.and_then(|found| found.value["id"].as_str().map(str::to_owned));
        let generation = match self.document(Collection::Meta, StoreGeneration::KEY).await? {
            Some(found) => {
                serde_json::from_value::<StoreGeneration>(found.value).ok().map(|lineage| lineage.generation)
            }
            None => Some(Generation::default()),
        };
        Ok(StoreIdentity { store_id: id, generation, position: self.end() })
    }

    /// Reports whether the database was never written.
    pub async fn is_blank(&self) -> Result<bool, StoreError> {
        let has_id = self.document(Collection::Meta, ID_KEY).await?.is_some();
        let has_tokens = !self.documents(Collection::Tokens).await?.is_empty();
        Ok(!has_id && !has_tokens && self.end() == Position(0))
    }

    async fn put_meta(&self, key: &str, document: Value) -> Result<(), RecordError> {
        let there = self.document(Collection::Meta, key).await?;
        let expected = there.map_or(Expected::Absent, |found| Expected::At(found.revision));
        self.put(Collection::Meta, key, expected, Some(document)).await?;
        Ok(())
    }
}

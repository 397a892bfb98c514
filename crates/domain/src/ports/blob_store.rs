//! The bytes of artifacts, outside of the store: large, written once, named by their content.

use std::time::Duration;

use async_trait::async_trait;

use super::job_store::StoreError;
use crate::artifact::BlobKey;
use crate::ids::JobId;
use crate::names::ArtifactName;
use crate::time::Timestamp;

/// Stores blobs: a local directory, or a cloud's object store.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Begins a blob. It does not exist before [`BlobWriter::finish`].
    async fn create(&self, key: &BlobKey, about: &BlobAttributes) -> Result<Box<dyn BlobWriter>, StoreError>;
    /// Opens a blob; `None` if it does not exist.
    async fn open(&self, key: &BlobKey) -> Result<Option<Box<dyn BlobReader>>, StoreError>;
    /// Removes a blob, finished or not. A blob that does not exist is no error.
    async fn remove(&self, key: &BlobKey) -> Result<(), StoreError>;
    /// The blobs of a job, also unfinished ones that a directory has, each with the time of its last write. Foreign files
    /// are not listed.
    async fn list(&self, job: JobId) -> Result<Vec<(BlobKey, Timestamp)>, StoreError>;
    /// A URL that downloads the blob as an attachment for this long; `None` if the store signs none.
    async fn signed_url(&self, key: &BlobKey, valid: Duration) -> Result<Option<String>, StoreError>;
}

/// What an object store keeps with a blob, for downloads by a signed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobAttributes {
    /// The name of the downloaded file.
    pub name: ArtifactName,
}

/// A blob that is being written. Dropped before the end, it leaves no blob, at most garbage of the object store.
#[async_trait]
pub trait BlobWriter: Send {
    /// Appends bytes.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError>;
    /// Completes the blob. It is durable once this returns.
    async fn finish(self: Box<Self>) -> Result<(), StoreError>;
    /// Discards what was written.
    async fn abort(self: Box<Self>);
}

/// A blob that is being read.
#[async_trait]
pub trait BlobReader: Send {
    /// Its size.
    fn bytes(&self) -> u64;
    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError>;
}

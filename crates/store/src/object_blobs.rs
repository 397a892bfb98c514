//! Artifacts in an object store: Azure Blob, S3, Google Cloud Storage, and what speaks their protocols.

mod transport;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    BlobAttributes, BlobKey, BlobReader, BlobStore, BlobWriter, JobId, StoreError, Timestamp, attachment_disposition,
};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{
    Attribute, Attributes, GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt, PutMultipartOptions,
    PutOptions, PutPayload,
};

use crate::blob_place::{Bucket, ObjectProvider};
use crate::objects::Objects;
use transport::Transport;

/// Bytes of an upload in memory. S3 accepts 10,000 parts of at least 5 MiB: this allows 80 GB.
const PART_LEN: usize = 8 * 1024 * 1024;

/// What browsers are told of every blob.
const CONTENT_TYPE: &str = "application/octet-stream";

/// Blobs in a bucket: `<prefix>/<last two digits of the job's id>/<job>/<sha256>-<upload>`.
#[derive(Debug, Clone)]
pub struct ObjectBlobs {
    store: Arc<dyn ObjectStore>,
    signer: Arc<dyn Signer>,
    prefix: String,
}

/// Why a bucket cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the configuration of {bucket} is not complete: {why}")]
pub struct ObjectStoreError {
    bucket: String,
    why: String,
}

impl ObjectBlobs {
    /// A bucket. `variables` are those of the provider's own tools, such as `AWS_ACCESS_KEY_ID`,
    /// `AZURE_STORAGE_ACCOUNT_KEY` and `GOOGLE_APPLICATION_CREDENTIALS`; others are ignored. Nothing is sent yet.
    pub fn new(
        bucket: &Bucket,
        endpoint: Option<&str>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ObjectStoreError> {
        let variables = variables.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
        let failure = |why: String| ObjectStoreError { bucket: bucket.to_string(), why };
        let transport = Transport::new().map_err(failure)?;
        let is_plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
        let (store, signer): (Arc<dyn ObjectStore>, Arc<dyn Signer>) = match bucket.provider {
            ObjectProvider::Azure => {
                let mut builder = MicrosoftAzureBuilder::new().with_http_connector(transport);
                for (name, value) in variables.filter(|(name, _)| name.starts_with("azure_")) {
                    if let Ok(key) = name.parse::<AzureConfigKey>() {
                        builder = builder.with_config(key, value);
                    }
                }
                if let Some(endpoint) = endpoint {
                    builder = builder.with_endpoint(endpoint.to_owned()).with_allow_http(is_plain);
                }
                let built = builder.with_container_name(&bucket.name).build();
                let store = Arc::new(built.map_err(|error| failure(error.to_string()))?);
                (Arc::clone(&store) as _, store)
            }
            ObjectProvider::S3 => {
                let mut builder = AmazonS3Builder::new().with_http_connector(transport);
                for (name, value) in variables.filter(|(name, _)| name.starts_with("aws_")) {
                    if let Ok(key) = name.parse::<AmazonS3ConfigKey>() {
                        builder = builder.with_config(key, value);
                    }
                }
                if let Some(endpoint) = endpoint {
                    builder = builder.with_endpoint(endpoint).with_allow_http(is_plain);
                }
                let built = builder.with_bucket_name(&bucket.name).build();
                let store = Arc::new(built.map_err(|error| failure(error.to_string()))?);
                (Arc::clone(&store) as _, store)
            }
            ObjectProvider::Gcs => {
                let mut builder = GoogleCloudStorageBuilder::new().with_http_connector(transport);
                for (name, value) in variables.filter(|(name, _)| name.starts_with("google_")) {
                    if let Ok(key) = name.parse::<GoogleConfigKey>() {
                        builder = builder.with_config(key, value);
                    }
                }
                if endpoint.is_some() {
                    return Err(failure("Google Cloud Storage has one endpoint: remove `endpoint`".to_owned()));
                }
                let built = builder.with_bucket_name(&bucket.name).build();
                let store = Arc::new(built.map_err(|error| failure(error.to_string()))?);
                (Arc::clone(&store) as _, store)
            }
        };
        Ok(Self { store, signer, prefix: bucket.prefix.clone() })
    }

    fn below(&self, path: &str) -> Path {
        Path::from(format!("{}/{path}", self.prefix).trim_start_matches('/'))
    }

    fn folder(&self, job: JobId) -> Path {
        let name = job.to_string();
        self.below(&format!("{}/{name}", &name[name.len() - 2..]))
    }

    fn object(&self, key: &BlobKey) -> Path {
        self.folder(key.job).join(key.file_name())
    }
}

#[async_trait]
impl BlobStore for ObjectBlobs {
    async fn create(&self, key: &BlobKey, about: &BlobAttributes) -> Result<Box<dyn BlobWriter>, StoreError> {
        let attributes = Attributes::from_iter([
            (Attribute::ContentDisposition, attachment_disposition(&about.name)),
            (Attribute::ContentType, CONTENT_TYPE.to_owned()),
        ]);
        let (store, object) = (Arc::clone(&self.store), self.object(key));
        Ok(Box::new(ObjectWriter { store, object, attributes, buffer: Vec::new(), parts: None }))
    }

    async fn open(&self, key: &BlobKey) -> Result<Option<Box<dyn BlobReader>>, StoreError> {
        match self.store.get(&self.object(key)).await {
            Ok(found) => {
                let bytes = found.meta.size;
                Ok(Some(Box::new(ObjectReader { bytes, pieces: found.into_stream() })))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure(&error)),
        }
    }

    async fn remove(&self, key: &BlobKey) -> Result<(), StoreError> {
        match self.store.delete(&self.object(key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failure(&error)),
        }
    }

    async fn list(&self, job: JobId) -> Result<Vec<(BlobKey, Timestamp)>, StoreError> {
        let mut objects = self.store.list(Some(&self.folder(job)));
        let mut found = Vec::new();
        while let Some(object) = objects.try_next().await.map_err(|error| failure(&error))? {
            let key = object.location.filename().and_then(|name| BlobKey::of_file(job, name));
            found.extend(key.map(|key| (key, Timestamp::from_millis(object.last_modified.timestamp_millis()))));
        }
        Ok(found)
    }

    async fn signed_url(&self, key: &BlobKey, valid: Duration) -> Result<Option<String>, StoreError> {
        let signed = self.signer.signed_url(http::Method::GET, &self.object(key), valid).await;
        signed.map(|url| Some(url.to_string())).map_err(|error| failure(&error))
    }
}

#[async_trait]
impl Objects for ObjectBlobs {
    async fn put(&self, path: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.store.put(&self.below(path), PutPayload::from(bytes)).await.map(drop).map_err(|error| failure(&error))
    }

    async fn get(&self, path: &str, range: Option<Range<u64>>) -> Result<Option<Vec<u8>>, StoreError> {
        let options = GetOptions { range: range.map(GetRange::Bounded), ..Default::default() };
        let found = async { self.store.get_opts(&self.below(path), options).await?.bytes().await };
        match found.await {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure(&error)),
        }
    }

    async fn list(&self, below: &str) -> Result<Vec<String>, StoreError> {
        let mut objects = self.store.list(Some(&self.below(below)));
        let mut found = Vec::new();
        while let Some(object) = objects.try_next().await.map_err(|error| failure(&error))? {
            let path = object.location.as_ref().strip_prefix(&*self.prefix).unwrap_or_default();
            found.push(path.trim_start_matches('/').to_owned());
        }
        Ok(found)
    }

    async fn remove(&self, path: &str) -> Result<(), StoreError> {
        match self.store.delete(&self.below(path)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failure(&error)),
        }
    }
}

struct ObjectWriter {
    store: Arc<dyn ObjectStore>,
    object: Path,
    attributes: Attributes,
    /// Less than a part.
    buffer: Vec<u8>,
    /// The upload in parts, of what does not fit into one.
    parts: Option<Box<dyn MultipartUpload>>,
}

impl ObjectWriter {
    async fn send_part(&mut self) -> object_store::Result<()> {
        let part = PutPayload::from(std::mem::take(&mut self.buffer));
        let mut parts = match self.parts.take() {
            Some(parts) => parts,
            None => {
                let options = PutMultipartOptions { attributes: self.attributes.clone(), ..Default::default() };
                self.store.put_multipart_opts(&self.object, options).await?
            }
        };
        let sent = parts.put_part(part).await;
        self.parts = Some(parts);
        sent
    }
}

#[async_trait]
impl BlobWriter for ObjectWriter {
    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        while !bytes.is_empty() {
            let (fitting, rest) = bytes.split_at(bytes.len().min(PART_LEN - self.buffer.len()));
            self.buffer.extend_from_slice(fitting);
            bytes = rest;
            if self.buffer.len() == PART_LEN {
                self.send_part().await.map_err(|error| failure(&error))?;
            }
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        let finish = async {
            if self.parts.is_none() {
                let options = PutOptions { attributes: self.attributes.clone(), ..Default::default() };
                let whole = PutPayload::from(std::mem::take(&mut self.buffer));
                return self.store.put_opts(&self.object, whole, options).await.map(drop);
            }
            if !self.buffer.is_empty() {
                self.send_part().await?;
            }
            match self.parts.as_mut() {
                Some(parts) => parts.complete().await.map(drop),
                None => Ok(()),
            }
        };
        let finished = finish.await;
        if finished.is_err() {
            self.abort().await;
        }
        finished.map_err(|error| failure(&error))
    }

    async fn abort(mut self: Box<Self>) {
        if let Some(mut parts) = self.parts.take() {
            // What cannot be discarded now is left to the lifecycle rules of the object store.
            let _ = parts.abort().await;
        }
    }
}

struct ObjectReader {
    bytes: u64,
    pieces: BoxStream<'static, object_store::Result<Bytes>>,
}

#[async_trait]
impl BlobReader for ObjectReader {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let piece = self.pieces.next().await.transpose().map_err(|error| failure(&error))?;
        Ok(piece.map(Vec::from))
    }
}

fn failure(error: &object_store::Error) -> StoreError {
    StoreError::Unavailable(format!("the object store of artifacts: {}", domain::error_chain(error)))
}

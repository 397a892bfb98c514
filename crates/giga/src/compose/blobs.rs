//! Where the bytes of artifacts are kept.

use std::sync::Arc;

use domain::BlobStore;
use store::{BlobPlace, Bucket, DirectoryBlobs};

use crate::config::Config;

/// The blob store of the configuration. Nothing is sent to an object store yet.
pub(super) fn open(config: &Config) -> anyhow::Result<Arc<dyn BlobStore>> {
    match config.artifacts.store.value.as_ref().map(|choice| &choice.0) {
        None => Ok(Arc::new(DirectoryBlobs::new(config.data.artifacts()))),
        Some(BlobPlace::Directory(dir)) => Ok(Arc::new(DirectoryBlobs::new(dir))),
        Some(BlobPlace::Bucket(bucket)) => in_bucket(config, bucket),
    }
}

#[cfg(feature = "cloud-storage")]
fn in_bucket(config: &Config, bucket: &Bucket) -> anyhow::Result<Arc<dyn BlobStore>> {
    let endpoint = config.artifacts.endpoint.value.as_deref();
    // Names and values that are no text belong to no provider.
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Arc::new(store::ObjectBlobs::new(bucket, endpoint, variables)?))
}

#[cfg(not(feature = "cloud-storage"))]
fn in_bucket(_: &Config, bucket: &Bucket) -> anyhow::Result<Arc<dyn BlobStore>> {
    let failure =
        crate::failure::Failure::usage(format!("artifacts.store: this build of giga does not support {bucket}"));
    Err(failure.hint("build it with the feature `cloud-storage`, or name a directory").into())
}

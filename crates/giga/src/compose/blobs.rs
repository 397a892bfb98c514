//! Where the bytes of artifacts are kept, and the logs and the evidence of runs.

use std::sync::Arc;

use domain::BlobStore;
use store::{BlobPlace, Bucket, DirectoryBlobs, DirectoryLogs, ObjectLogs, RunLogs};

use crate::config::Config;

/// Output of one run that is kept: enough for a day of a talkative agent.
const LOG_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The blob store of the configuration. Nothing is sent to an object store yet.
pub(super) fn open(config: &Config) -> anyhow::Result<Arc<dyn BlobStore>> {
    match config.artifacts.store.value.as_ref().map(|choice| &choice.0) {
        None => Ok(Arc::new(DirectoryBlobs::new(config.data.artifacts()))),
        Some(BlobPlace::Directory(dir)) => Ok(Arc::new(DirectoryBlobs::new(dir))),
        Some(BlobPlace::Bucket(bucket)) => in_bucket(config, bucket),
    }
}

/// The logs and the evidence of runs. Nothing is sent to an object store yet.
pub(crate) fn logs(config: &Config) -> anyhow::Result<RunLogs> {
    let directory = DirectoryLogs::new(config.data.logs(), LOG_BYTES_MAX);
    if !config.artifacts.logs.value {
        return Ok(directory.into());
    }
    let objects = match config.artifacts.store.value.as_ref().map(|choice| &choice.0) {
        None => ObjectLogs::in_directory(config.data.artifacts(), LOG_BYTES_MAX),
        Some(BlobPlace::Directory(dir)) => ObjectLogs::in_directory(dir, LOG_BYTES_MAX),
        Some(BlobPlace::Bucket(bucket)) => logs_in_bucket(config, bucket)?,
    };
    Ok(RunLogs::as_objects(objects, directory))
}

#[cfg(feature = "cloud-storage")]
fn in_bucket(config: &Config, bucket: &Bucket) -> anyhow::Result<Arc<dyn BlobStore>> {
    Ok(Arc::new(objects(config, bucket)?))
}

#[cfg(feature = "cloud-storage")]
fn logs_in_bucket(config: &Config, bucket: &Bucket) -> anyhow::Result<ObjectLogs> {
    Ok(ObjectLogs::in_bucket(objects(config, bucket)?, LOG_BYTES_MAX))
}

#[cfg(feature = "cloud-storage")]
fn objects(config: &Config, bucket: &Bucket) -> anyhow::Result<store::ObjectBlobs> {
    let endpoint = config.artifacts.endpoint.value.as_deref();
    // Names and values that are no text belong to no provider.
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(store::ObjectBlobs::new(bucket, endpoint, variables)?)
}

#[cfg(not(feature = "cloud-storage"))]
fn in_bucket(_: &Config, bucket: &Bucket) -> anyhow::Result<Arc<dyn BlobStore>> {
    Err(unsupported(bucket).into())
}

#[cfg(not(feature = "cloud-storage"))]
fn logs_in_bucket(_: &Config, bucket: &Bucket) -> anyhow::Result<ObjectLogs> {
    Err(unsupported(bucket).into())
}

#[cfg(not(feature = "cloud-storage"))]
fn unsupported(bucket: &Bucket) -> crate::failure::Failure {
    crate::failure::Failure::usage(format!("artifacts.store: this build of giga does not support {bucket}"))
        .hint("build it with the feature `cloud-storage`, or name a directory")
}

#[cfg(test)]
mod tests {
    use domain::{Epoch, JobId, LogStore};

    use super::*;
    use crate::config::of_file;

    // [J8] [J9]
    #[tokio::test]
    async fn logs_are_kept_with_the_artifacts_if_that_is_configured() {
        let place = tempfile::tempdir().unwrap();
        let (data, shared) = (place.path().join("data"), place.path().join("shared"));
        let settings = |rest: &str| {
            let text = format!("data = {data:?}\n[artifacts]\nstore = {shared:?}\n{rest}");
            logs(&of_file(&text).unwrap()).unwrap()
        };
        let (job, document) = (JobId::from_bytes([7; 16]), &b"{}"[..]);

        settings("").keep_evidence(job, Epoch(1), document).await.unwrap();
        let without = (data.exists(), shared.exists());
        settings("logs = true\n").keep_evidence(job, Epoch(2), document).await.unwrap();

        assert_eq!(without, (true, false));
        assert!(shared.join("evidence").exists());
        let elsewhere = settings("logs = true\n");
        std::fs::remove_dir_all(&data).unwrap();
        assert_eq!(elsewhere.evidence(job, Epoch(1)).await.unwrap(), None);
        assert_eq!(elsewhere.evidence(job, Epoch(2)).await.unwrap().as_deref(), Some(document));
    }

    // [J8]
    #[cfg(not(feature = "cloud-storage"))]
    #[test]
    fn a_build_without_object_stores_refuses_logs_in_one() {
        let config = of_file("[artifacts]\nstore = \"az://a\"\nlogs = true\n").unwrap();

        assert!(logs(&config).unwrap_err().to_string().contains("does not support az://a"));
    }
}

//! Artifacts of runs [J8]: the bytes first, then the pointer with its event in one commit.
//!
//! A job has a record of the fleet before its first blob exists, so that whatever a crash leaves behind is found again.

pub(crate) mod collect;
mod upload;

use std::sync::Arc;

use domain::{ARTIFACTS_MAX, ArtifactId, BlobKey, BlobReader, JobId};
use foldhash::HashMap;
use parking_lot::Mutex;
use protocol::{ArtifactLink, ArtifactList, ArtifactView};
use tokio::sync::{Notify, Semaphore};
use tracing::warn;

use crate::commit::Decision;
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;

use collect::RecordEntry;
pub use upload::{ArtifactUpload, NewArtifact, UploadStart};

/// Uploads at once. Further ones wait, with their bytes unread.
const UPLOADS_MAX: usize = 16;

/// The uploads in progress, and the jobs that have blobs.
pub(crate) struct ArtifactShelf {
    uploads: Arc<Semaphore>,
    records: Mutex<HashMap<JobId, RecordEntry>>,
    /// The next visit may be earlier than before.
    bell: Notify,
}

impl Default for ArtifactShelf {
    fn default() -> Self {
        Self { uploads: Arc::new(Semaphore::new(UPLOADS_MAX)), records: Mutex::default(), bell: Notify::new() }
    }
}

/// The content of an artifact.
pub enum ArtifactContent {
    /// A URL from which the object store serves it as an attachment.
    Url(String),
    /// The bytes.
    Bytes(Box<dyn BlobReader>),
}

impl Coordinator {
    /// The artifacts of a job.
    pub async fn artifacts(&self, who: &Principal, id: JobId) -> Result<ArtifactList, Error> {
        let job = self.visible(who, id).await?.value;
        let limits = &self.settings.artifacts;
        Ok(ArtifactList {
            items: job.artifacts().iter().map(|artifact| ArtifactView::of(id, artifact)).collect(),
            bytes: job.artifact_bytes(),
            bytes_max: limits.job_bytes_max,
            items_max: ARTIFACTS_MAX as u64,
            file_bytes_max: limits.file_bytes_max,
        })
    }

    /// An artifact with its content. `may_redirect`: by a URL of the object store, if it is configured.
    pub async fn artifact(
        &self,
        who: &Principal,
        id: ArtifactId,
        may_redirect: bool,
    ) -> Result<(ArtifactView, ArtifactContent), Error> {
        let (view, key) = self.find_artifact(who, id).await?;
        if may_redirect && let Some(url) = self.signed_url(&key).await? {
            return Ok((view, ArtifactContent::Url(url)));
        }
        let reader = self.ports.blobs.open(&key).await?.ok_or(Error::ArtifactGone(id))?;
        Ok((view, ArtifactContent::Bytes(reader)))
    }

    /// Where a browser gets the bytes: a link cannot carry a token.
    pub async fn artifact_link(&self, who: &Principal, id: ArtifactId) -> Result<ArtifactLink, Error> {
        let (_, key) = self.find_artifact(who, id).await?;
        Ok(ArtifactLink { url: self.signed_url(&key).await? })
    }

    async fn find_artifact(&self, who: &Principal, id: ArtifactId) -> Result<(ArtifactView, BlobKey), Error> {
        let job = self.job_of_artifact(who, id).await?.value;
        let artifact = job.artifact(id.n()).ok_or(Error::NoSuchArtifact(id))?;
        Ok((ArtifactView::of(id.job(), artifact), artifact.blob(id.job())))
    }

    /// A URL of the object store, if the configuration allows it.
    async fn signed_url(&self, key: &BlobKey) -> Result<Option<String>, Error> {
        let Some(valid) = self.settings.artifact_url_ttl else { return Ok(None) };
        Ok(self.ports.blobs.signed_url(key, valid).await?)
    }

    /// Removes an artifact: the pointer with its event first, then the bytes.
    pub async fn remove_artifact(&self, who: &Principal, id: ArtifactId) -> Result<ArtifactView, Error> {
        let job = self.job_of_artifact(who, id).await?.value;
        who.require_operator(job.product())?;
        let artifact = job.artifact(id.n()).cloned().ok_or(Error::NoSuchArtifact(id))?;
        self.amend(id.job(), |job| {
            let removed = job.without_artifact(id.n(), self.now(), who.actor());
            Ok(removed.map_or(Decision::Keep, Decision::Write))
        })
        .await?;
        if let Err(error) = self.ports.blobs.remove(&artifact.blob(id.job())).await {
            // The pointer is gone, and the collector finds the bytes.
            warn!(job.id = %id.job(), %error, "The bytes of artifact {id} could not be removed yet");
        }
        Ok(ArtifactView::of(id.job(), &artifact))
    }

    /// The job of an artifact. What the caller may not see does not exist for it.
    async fn job_of_artifact(
        &self,
        who: &Principal,
        id: ArtifactId,
    ) -> Result<domain::Versioned<Arc<domain::Job>>, Error> {
        match self.visible(who, id.job()).await {
            Err(Error::NoSuchJob(_)) => Err(Error::NoSuchArtifact(id)),
            found => found,
        }
    }
}

//! One upload: the fence and the limits first, then the bytes as they arrive, then the pointer.

use std::sync::Arc;

use domain::{
    ArtifactLimits, ArtifactName, AttachOutcome, BlobAttributes, BlobWriter, ContentType, Epoch, FactoryId, Job, JobId,
    Refusal, Sha256, UploadId, UploadedArtifact,
};
use fail::fail_point;
use parking_lot::Mutex;
use protocol::ArtifactView;
use sha2::Digest;
use tokio::sync::OwnedSemaphorePermit;
use tracing::{info, warn};

use crate::commit::Decision;
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::invalid;

/// A file that a factory wants to attach.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    /// The epoch of the run that left it.
    pub epoch: Epoch,
    /// The name for people.
    pub name: ArtifactName,
    /// The content type.
    pub content_type: ContentType,
    /// Digest of the bytes.
    pub sha256: Sha256,
    /// The bytes that are announced; 0 when unknown.
    pub bytes_min: u64,
}

/// What an upload begins with.
pub enum UploadStart {
    /// The run has attached it before: nothing is to be sent.
    Known(ArtifactView),
    /// The bytes are awaited.
    Ready(ArtifactUpload),
}

/// An upload in progress. Only one chunk of it is in memory.
pub struct ArtifactUpload {
    coordinator: Arc<Coordinator>,
    job: JobId,
    factory: FactoryId,
    epoch: Epoch,
    announced: UploadedArtifact,
    limits: ArtifactLimits,
    /// The job as it was at the beginning: its other artifacts count against the limit.
    before: Arc<Job>,
    writer: Box<dyn BlobWriter>,
    digest: sha2::Sha256,
    _turn: OwnedSemaphorePermit,
}

impl Coordinator {
    /// Begins the upload of an artifact by the holder of a run. Fenced like every other write.
    pub async fn begin_artifact(
        self: &Arc<Self>,
        who: &Principal,
        id: JobId,
        new: NewArtifact,
    ) -> Result<UploadStart, Error> {
        let factory = who.factory()?.clone();
        let job = self.workable(who, id).await?.value;
        let NewArtifact { epoch, name, content_type, sha256, bytes_min } = new;
        let run = job.run_of_holder(epoch, &factory)?;
        // A restored job may not have been migrated yet, if that write failed at the start (row 28).
        if job.generation() < self.generation {
            return Err(Refusal::StaleEpoch { shown: epoch, held: job.epoch() }.into());
        }
        if let Some(known) = job.attached(run, name.as_str(), &sha256) {
            return Ok(UploadStart::Known(ArtifactView::of(id, known)));
        }
        let limits = self.settings.artifacts;
        job.has_room_for(bytes_min, &limits)?;
        let turn = Arc::clone(&self.artifacts.uploads).acquire_owned().await;
        let turn = turn.map_err(|_| Error::NotReady("the coordinator is stopping".to_owned()))?;
        self.record_artifacts(id, job.product()).await?;
        let upload = UploadId::of(self.ports.entropy.bytes());
        let announced = UploadedArtifact { name, content_type, bytes: 0, sha256, upload };
        let about = BlobAttributes { name: announced.name.clone() };
        let writer = self.ports.blobs.create(&blob_of(id, &announced), &about).await?;
        Ok(UploadStart::Ready(ArtifactUpload {
            coordinator: Arc::clone(self),
            job: id,
            factory,
            epoch,
            announced,
            limits,
            before: job,
            writer,
            digest: sha2::Sha256::new(),
            _turn: turn,
        }))
    }

    /// Sets the pointer of an upload, unless the run has the same artifact meanwhile.
    async fn attach(
        &self,
        id: JobId,
        holder: (Epoch, &FactoryId),
        upload: &UploadedArtifact,
    ) -> Result<(ArtifactView, bool), Error> {
        let limits = self.settings.artifacts;
        let known = Mutex::new(None);
        let job = self
            .amend(id, |job| match job.attach_artifact(holder, upload, &limits, self.now())? {
                AttachOutcome::Attached(job) => {
                    known.lock().take();
                    Ok(Decision::Write(job))
                }
                AttachOutcome::Repeated(artifact) => {
                    *known.lock() = Some(artifact);
                    Ok(Decision::Keep)
                }
            })
            .await?;
        match known.into_inner() {
            // The commit may have been this one's, with a lost answer (row 32).
            Some(artifact) => Ok((ArtifactView::of(id, &artifact), artifact.upload == upload.upload)),
            None => {
                let found = job.value.artifacts().iter().find(|artifact| artifact.upload == upload.upload);
                let artifact = found.ok_or_else(|| Error::NotReady("the artifact was removed meanwhile".to_owned()))?;
                Ok((ArtifactView::of(id, artifact), true))
            }
        }
    }
}

fn blob_of(job: JobId, upload: &UploadedArtifact) -> domain::BlobKey {
    domain::BlobKey { job, sha256: upload.sha256.clone(), upload: upload.upload }
}

impl ArtifactUpload {
    /// Appends bytes. The limits hold while they arrive: a file that turns out too large is refused at the first byte
    /// too many.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.announced.bytes += bytes.len() as u64;
        self.before.has_room_for(self.announced.bytes, &self.limits)?;
        self.digest.update(bytes);
        Ok(self.writer.write(bytes).await?)
    }

    /// Completes the blob, then sets the pointer. A refused one leaves neither.
    pub async fn finish(self) -> Result<ArtifactView, Error> {
        let found = Sha256::of(self.digest.clone().finalize().into());
        if found != self.announced.sha256 {
            let why = format!("the body has the digest {found}: the file changed while it was sent, send it again");
            self.abort().await;
            return Err(invalid("sha256", why));
        }
        self.writer.finish().await?;
        fail_point!("artifact::stored");
        let (coordinator, key) = (&self.coordinator, blob_of(self.job, &self.announced));
        let attached = coordinator.attach(self.job, (self.epoch, &self.factory), &self.announced).await;
        let is_used = match &attached {
            Ok((_, is_used)) => *is_used,
            // The outcome of a commit that failed with the store is not known: the collector decides.
            Err(Error::Store(_) | Error::Contended(_)) => true,
            Err(_) => false,
        };
        if !is_used && let Err(error) = coordinator.ports.blobs.remove(&key).await {
            warn!(job.id = %self.job, %error, "A refused artifact could not be removed yet");
        }
        fail_point!("artifact::attached");
        let (view, _) = attached?;
        let label = coordinator.label(self.job);
        info!(job.id = %self.job, artifact.id = %view.id, artifact.bytes = view.bytes, "Attached {} to job {label}", view.name);
        Ok(view)
    }

    /// Discards what has arrived.
    pub async fn abort(self) {
        self.writer.abort().await;
    }
}

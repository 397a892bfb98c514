//! The artifacts of a job [J8]: pointers, written together with their events.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Job;
use crate::artifact::{ARTIFACTS_MAX, Artifact, ArtifactLimits, UploadedArtifact, byte_size};
use crate::event::{Actor, EventKind};
use crate::ids::Epoch;
use crate::names::{FactoryId, Sha256};
use crate::refusal::Refusal;
use crate::stage::Holder;
use crate::time::Timestamp;

/// Names of removed artifacts in an event: a person needs no more to recognise them.
const NAMES_SHOWN_MAX: usize = 10;

/// The pointers of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArtifactPointers {
    /// The number of the last one that was attached.
    last: u32,
    items: Vec<Artifact>,
}

impl ArtifactPointers {
    pub(super) fn is_empty(&self) -> bool {
        self.last == 0
    }
}

/// The outcome of attaching an artifact.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives on the stack between a decision and its commit")]
pub enum AttachOutcome {
    /// The job with the new artifact, which is its last one.
    Attached(Job),
    /// The run has attached the same content under this name before.
    Repeated(Artifact),
}

impl Job {
    /// The artifacts, oldest first.
    pub fn artifacts(&self) -> &[Artifact] {
        &self.state.artifacts.items
    }

    /// The artifact of this number.
    pub fn artifact(&self, n: u32) -> Option<&Artifact> {
        self.artifacts().iter().find(|artifact| artifact.n == n)
    }

    /// The bytes of all artifacts.
    pub fn artifact_bytes(&self) -> u64 {
        self.artifacts().iter().map(|artifact| artifact.bytes).fold(0, u64::saturating_add)
    }

    /// Checks that a factory holds the lease of an epoch, and returns the number of its run. What is completed, and
    /// perhaps reviewed, gets no further artifacts.
    pub fn run_of_holder(&self, epoch: Epoch, factory: &FactoryId) -> Result<u32, Refusal> {
        self.require_holder(&Holder { factory: factory.clone(), epoch })?;
        let run = self.run_at(epoch).filter(|run| run.factory == *factory);
        run.map(|run| run.n).ok_or(Refusal::StaleEpoch { shown: epoch, held: self.epoch() })
    }

    /// The artifact that a run has attached with this name and content.
    pub fn attached(&self, run: u32, name: &str, sha256: &Sha256) -> Option<&Artifact> {
        let is_the_one = |known: &&Artifact| known.run == run && known.name.as_str() == name && known.sha256 == *sha256;
        self.artifacts().iter().find(is_the_one)
    }

    /// Checks that another artifact with at least this many bytes fits into the job.
    pub fn has_room_for(&self, bytes: u64, limits: &ArtifactLimits) -> Result<(), Refusal> {
        let why = if self.artifacts().len() >= ARTIFACTS_MAX {
            format!("the job has {ARTIFACTS_MAX} artifacts, which is the limit")
        } else if bytes > limits.file_bytes_max {
            format!("an artifact has {} at most", byte_size(limits.file_bytes_max))
        } else if self.artifact_bytes().saturating_add(bytes) > limits.job_bytes_max {
            let (used, max) = (byte_size(self.artifact_bytes()), byte_size(limits.job_bytes_max));
            format!("the artifacts of the job have {used} of {max}: remove one, or attach a smaller one")
        } else {
            return Ok(());
        };
        Err(Refusal::ArtifactLimit(why))
    }

    /// Attaches an uploaded file to the run that its holder works on.
    pub fn attach_artifact(
        mut self,
        (epoch, factory): (Epoch, &FactoryId),
        upload: &UploadedArtifact,
        limits: &ArtifactLimits,
        at: Timestamp,
    ) -> Result<AttachOutcome, Refusal> {
        let run = self.run_of_holder(epoch, factory)?;
        if let Some(known) = self.attached(run, upload.name.as_str(), &upload.sha256) {
            return Ok(AttachOutcome::Repeated(known.clone()));
        }
        self.has_room_for(upload.bytes, limits)?;
        let UploadedArtifact { name, content_type, bytes, sha256, upload } = upload.clone();
        let n = self.state.artifacts.last + 1;
        let artifact = Artifact { n, name, content_type, bytes, sha256, run, at, upload };
        let data = json!({
            "artifact": n, "name": artifact.name, "bytes": bytes, "sha256": artifact.sha256, "run": run,
        });
        self.state.artifacts.last = n;
        self.state.artifacts.items.push(artifact);
        self.record(EventKind::ArtifactAttached, at, Actor::Factory(factory.clone()), data);
        Ok(AttachOutcome::Attached(self))
    }

    /// Removes the pointer of an artifact; `None` if there is no such artifact.
    pub fn without_artifact(mut self, n: u32, at: Timestamp, by: Actor) -> Option<Self> {
        let place = self.state.artifacts.items.iter().position(|artifact| artifact.n == n)?;
        let removed = self.state.artifacts.items.remove(place);
        let data = json!({ "artifact": n, "names": [removed.name], "count": 1, "bytes": removed.bytes });
        self.record(EventKind::ArtifactsRemoved, at, by, data);
        Some(self)
    }

    /// Removes all pointers, because the retention time is over.
    #[must_use]
    pub fn without_artifacts(mut self, at: Timestamp, by: Actor) -> Self {
        let removed = std::mem::take(&mut self.state.artifacts.items);
        let names: Vec<_> = removed.iter().take(NAMES_SHOWN_MAX).map(|artifact| &artifact.name).collect();
        let bytes: u64 = removed.iter().map(|artifact| artifact.bytes).sum();
        let data = json!({ "names": names, "count": removed.len(), "bytes": bytes, "expired": true });
        self.record(EventKind::ArtifactsRemoved, at, by, data);
        self
    }
}

//! Artifacts: files that runs leave [J8].

use domain::{Artifact, ArtifactId, ArtifactName, ContentType, JobId, Sha256, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An artifact of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactView {
    /// Its id.
    pub id: ArtifactId,
    /// The job.
    pub job_id: JobId,
    /// The name for people.
    pub name: ArtifactName,
    /// The content type as the factory names it. The bytes are always served as an attachment of an unknown type.
    pub content_type: ContentType,
    /// Size in bytes.
    pub bytes: u64,
    /// Digest of the bytes.
    pub sha256: Sha256,
    /// The run that left it.
    pub run: u32,
    /// When it was attached.
    pub at: Timestamp,
}

impl ArtifactView {
    /// An artifact of a job.
    pub fn of(job: JobId, artifact: &Artifact) -> Self {
        let Artifact { n, name, content_type, bytes, sha256, run, at, upload: _ } = artifact.clone();
        Self { id: ArtifactId::of(job, n), job_id: job, name, content_type, bytes, sha256, run, at }
    }
}

/// The artifacts of a job, and how many it may have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactList {
    /// Oldest first.
    pub items: Vec<ArtifactView>,
    /// The bytes of all of them.
    pub bytes: u64,
    /// The limit of their bytes.
    pub bytes_max: u64,
    /// The limit of their number.
    pub items_max: u64,
    /// The limit of the bytes of one.
    pub file_bytes_max: u64,
}

/// Where a browser gets the bytes of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactLink {
    /// A signed URL of the object store. It needs no credential and works for a short time. Absent where the
    /// coordinator passes the bytes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

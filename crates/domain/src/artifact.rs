//! Artifacts: files that runs leave beside their commits [J8]. The job has a pointer, a blob store the bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::JobId;
use crate::names::{ArtifactName, ContentType, Sha256};
use crate::time::Timestamp;

/// Artifacts of one job. Their pointers are part of its document, which every change rewrites.
pub const ARTIFACTS_MAX: usize = 100;

/// The most that one artifact may have: transfers take as long as their size needs.
pub const ARTIFACT_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;

/// A job's pointer to an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// The number among the job's artifacts, from 1. Numbers are never reused.
    pub n: u32,
    /// The name for people, never a path of the coordinator.
    pub name: ArtifactName,
    /// The content type as the factory names it.
    pub content_type: ContentType,
    /// Size in bytes.
    pub bytes: u64,
    /// Digest of the bytes.
    pub sha256: Sha256,
    /// The run that left it.
    pub run: u32,
    /// When it was attached.
    pub at: Timestamp,
    /// Tells the uploads of one content apart: each has a blob of its own, so that removing one never removes another.
    pub upload: UploadId,
}

/// An uploaded file that has no pointer yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadedArtifact {
    /// Its name.
    pub name: ArtifactName,
    /// Its content type.
    pub content_type: ContentType,
    /// Size in bytes.
    pub bytes: u64,
    /// Digest of the bytes.
    pub sha256: Sha256,
    /// The upload.
    pub upload: UploadId,
}

/// Random per upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UploadId([u8; 8]);

impl UploadId {
    /// An id of random bytes.
    pub fn of(random: [u8; 8]) -> Self {
        Self(random)
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<UploadId> for String {
    fn from(id: UploadId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for UploadId {
    type Error = ArtifactIdError;

    fn try_from(text: String) -> Result<Self, ArtifactIdError> {
        text.parse()
    }
}

impl FromStr for UploadId {
    type Err = ArtifactIdError;

    fn from_str(text: &str) -> Result<Self, ArtifactIdError> {
        let is_hex = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        number.map(|number| Self(number.to_be_bytes())).ok_or(ArtifactIdError)
    }
}

/// The name of an artifact's bytes in the blob store: by content, below the job. No part of it comes from a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobKey {
    /// The job.
    pub job: JobId,
    /// Digest of the bytes.
    pub sha256: Sha256,
    /// The upload.
    pub upload: UploadId,
}

impl BlobKey {
    /// The name below the job's own prefix.
    pub fn file_name(&self) -> String {
        format!("{}-{}", self.sha256, self.upload)
    }

    /// The key of a name below a job's prefix; `None` for a foreign file.
    pub fn of_file(job: JobId, name: &str) -> Option<Self> {
        let (sha256, upload) = name.split_once('-')?;
        Some(Self { job, sha256: sha256.parse().ok()?, upload: upload.parse().ok()? })
    }
}

impl Artifact {
    /// Where its bytes are.
    pub fn blob(&self, job: JobId) -> BlobKey {
        BlobKey { job, sha256: self.sha256.clone(), upload: self.upload }
    }
}

/// What one job may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactLimits {
    /// Bytes of one artifact.
    pub file_bytes_max: u64,
    /// Bytes of all artifacts of a job.
    pub job_bytes_max: u64,
}

impl Default for ArtifactLimits {
    fn default() -> Self {
        Self { file_bytes_max: 100 * 1024 * 1024, job_bytes_max: 1024 * 1024 * 1024 }
    }
}

/// An artifact: its job, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(
    value_type = String, min_length = 38, max_length = 47, example = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a-1",
    pattern = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}-[1-9][0-9]{0,8}$",
)]
pub struct ArtifactId((JobId, u32));

impl ArtifactId {
    /// The id of a job's artifact.
    pub fn of(job: JobId, n: u32) -> Self {
        Self((job, n))
    }

    /// The job.
    pub fn job(&self) -> JobId {
        self.0.0
    }

    /// The number among the job's artifacts.
    pub fn n(&self) -> u32 {
        self.0.1
    }
}

/// Not an artifact's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an artifact's id is the id of its job, `-` and a number: see `giga artifact list JOB`")]
pub struct ArtifactIdError;

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.job(), self.n())
    }
}

impl FromStr for ArtifactId {
    type Err = ArtifactIdError;

    fn from_str(text: &str) -> Result<Self, ArtifactIdError> {
        let (job, n) = text.rsplit_once('-').ok_or(ArtifactIdError)?;
        let is_number = (1..=9).contains(&n.len()) && n.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || n.starts_with('0') {
            return Err(ArtifactIdError);
        }
        let job = job.parse().map_err(|_| ArtifactIdError)?;
        Ok(Self::of(job, n.parse().map_err(|_| ArtifactIdError)?))
    }
}

impl TryFrom<String> for ArtifactId {
    type Error = ArtifactIdError;

    fn try_from(text: String) -> Result<Self, ArtifactIdError> {
        text.parse()
    }
}

impl From<ArtifactId> for String {
    fn from(id: ArtifactId) -> Self {
        id.to_string()
    }
}

/// The `Content-Disposition` of a download: always an attachment, under the last part of its name.
pub fn attachment_disposition(name: &ArtifactName) -> String {
    let name = name.file_name();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._- ()+=@,".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let encoded: String = name
        .bytes()
        .map(|byte| if is_kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

/// A size for people: `812 B`, `1.4 KiB`, `20.0 MiB`.
pub fn byte_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    // [J8] [attack: artifact path traversal, bombs]
    #[test]
    fn only_the_canonical_spelling_of_an_id_is_parsed() {
        let id = ArtifactId::of(JobId::from_bytes([7; 16]), 12);

        assert_eq!(id.to_string().parse(), Ok(id));
        let job = id.job();
        for text in ["", "-1", "1", "../1", &format!("{job}"), &format!("{job}-0"), &format!("{job}-01")] {
            assert_eq!(text.parse::<ArtifactId>(), Err(ArtifactIdError), "{text}");
        }
        for tail in ["-+1", "-1/..", "-1 ", "-9999999999", "--1", "/1"] {
            assert_eq!(format!("{job}{tail}").parse::<ArtifactId>(), Err(ArtifactIdError), "{tail}");
        }
    }

    // [J8] [attack: artifact path traversal, bombs]
    #[test]
    fn a_foreign_file_is_no_blob() {
        let job = JobId::from_bytes([7; 16]);
        let key = BlobKey { job, sha256: "a".repeat(64).parse().unwrap(), upload: UploadId::of([9; 8]) };

        assert_eq!(BlobKey::of_file(job, &key.file_name()), Some(key));
        for name in ["", "..", "../../etc/passwd", "a-b", &format!("{}-../x", "a".repeat(64))] {
            assert_eq!(BlobKey::of_file(job, name), None, "{name}");
        }
    }

    // [J8] [attack: XSS from Markdown, logs, names]
    #[test]
    fn no_name_breaks_out_of_the_disposition() {
        let disposition = |name: &str| attachment_disposition(&name.parse().unwrap());

        assert_eq!(
            disposition("out/Übersicht \"1\".html"),
            "attachment; filename=\"_bersicht _1_.html\"; filename*=UTF-8''%C3%9Cbersicht%20%221%22.html"
        );
        let hostile = disposition("a\"; filename=evil.html;'%0d%0aX: y");
        assert_eq!(hostile.matches('"').count(), 2, "{hostile}");
        assert!(hostile.starts_with("attachment; filename=\"a__ filename=evil.html"), "{hostile}");
    }

    #[test]
    fn sizes_have_one_decimal() {
        let sizes = [0, 1023, 1024, 1434, 20 << 20, (1 << 30) - 1, 3 << 40];

        assert_eq!(sizes.map(byte_size), ["0 B", "1023 B", "1.0 KiB", "1.4 KiB", "20.0 MiB", "1023.9 MiB", "3.0 TiB"]);
    }
}

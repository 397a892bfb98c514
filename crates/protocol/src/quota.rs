//! Usage windows: an engine's limit belongs to a credential, not to a job or a factory [B1].

use domain::{Checkpoint, EngineName, Epoch, FactoryId, JobId, RunInsights, StageName, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Reports an exhausted usage window. The job is requeued, and no attempt is counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaReport {
    /// The epoch of the lease.
    pub lease_epoch: Epoch,
    /// The engine.
    pub engine: EngineName,
    /// Opaque id of the credential as in the factory's heartbeats; empty if they do not name it.
    #[serde(default)]
    pub credential: String,
    /// The engine's name for the window: `five_hour`, `seven_day`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// When the window resets. Absent if the engine did not report it: the coordinator then retries with a growing
    /// backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
    /// Whether the credential's account has no credit left. It gets no work until an operator resumes it, or its key or
    /// login changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exhausted: bool,
    /// Details for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Saved work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Cost of the run.
    #[serde(default)]
    pub insights: RunInsights,
}

/// The answer to a quota report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaResponse {
    /// The job's stage.
    pub stage: StageName,
    /// When the credential becomes available; absent if an operator has to resume it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// A credential with an exhausted usage window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialView {
    /// Opaque id of the credential.
    pub credential: String,
    /// The engine that reported it.
    pub engine: EngineName,
    /// The engine's name for the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// When its engines become available; absent if an operator has to resume it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether the account has no credit left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exhausted: bool,
    /// Number of consecutive exhaustions.
    pub hits: u32,
    /// The job that reported it; omitted for principals limited to some products.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The factories that use the credential.
    pub factories: Vec<FactoryId>,
    /// The engine's message; omitted for principals limited to some products.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// All credentials with an exhausted usage window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialList {
    /// Ordered by id.
    pub items: Vec<CredentialView>,
}

/// Resumes a credential before its usage window resets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeCredential {
    /// Opaque id of the credential.
    pub credential: String,
}

//! Usage windows: an engine's limit belongs to a login, not to a job or a machine [B1].

use domain::{Checkpoint, EngineName, Epoch, FactoryId, JobId, RunInsights, StageName, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Says that the engine's usage window is used up. The job goes back to the queue, and no attempt is counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaReport {
    /// The fence.
    pub lease_epoch: Epoch,
    /// The engine.
    pub engine: EngineName,
    /// The login's opaque id, as the factory's signs of life name it; empty for an engine that they do not name.
    #[serde(default)]
    pub credential: String,
    /// What the engine calls the window: `five_hour`, `seven_day`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// When the window begins anew; absent when the engine did not say, which is waited out by growing pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
    /// Whether the credential's account has no credit left: it gets no work until an operator resumes it, or its key or
    /// login changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exhausted: bool,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Work saved on the way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// What the run cost until then.
    #[serde(default)]
    pub insights: RunInsights,
}

/// The answer to a usage window that is used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaResponse {
    /// Where the job is now.
    pub stage: StageName,
    /// Until when the login gets no work; absent when a person has to let it go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// A login whose usage window is used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialView {
    /// The login's opaque id.
    pub credential: String,
    /// The engine that said so.
    pub engine: EngineName,
    /// What the engine calls the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// When its engines get work again; absent when a person has to let them go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether the account has no credit left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exhausted: bool,
    /// How often in a row it was used up.
    pub hits: u32,
    /// The job that found out; not told to those who see only some products.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The factories that use the login.
    pub factories: Vec<FactoryId>,
    /// The engine's own words; not told to those who see only some products.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Every login whose usage window is used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialList {
    /// In order of their ids.
    pub items: Vec<CredentialView>,
}

/// Lets a login go on before its usage window begins anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeCredential {
    /// The login's opaque id.
    pub credential: String,
}

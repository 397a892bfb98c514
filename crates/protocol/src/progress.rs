//! What an agent is doing now, while it does it.

use domain::{Epoch, JobEvent, JobId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::work::HeldJob;

/// What an agent is doing now. A figure that is not known is absent, never 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// In a few words: the tool it uses and on what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// Tools it has used so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u32>,
    /// Files it has touched, the latest last; the earlier ones may be left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Tokens read by the model so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// Tokens written by the model so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
    /// US dollars so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Turns of the conversation so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// The engine's own session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// One job that a process holds, as it renews it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldJobProgress {
    /// What is held.
    #[serde(flatten)]
    pub held: HeldJob,
    /// What the agent is doing, when that changed since the last renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

impl From<HeldJob> for HeldJobProgress {
    fn from(held: HeldJob) -> Self {
        Self { held, progress: None }
    }
}

/// What the agent of a job is doing now: the event `progress` of the event streams. It has no position and is kept nowhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgressEvent {
    /// The job.
    pub job_id: JobId,
    /// The run.
    pub lease_epoch: Epoch,
    /// What it is doing.
    pub progress: Progress,
}

/// What comes through the event streams of the fleet and of one job: the name of the event, and its data as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "event", content = "data")]
pub enum StreamEvent {
    /// The stream is open. The event's `id` is where it begins, unless the client resumes.
    Hello {},
    /// Something happened to a job. The event's `id` is its place in the log.
    Job(JobEvent),
    /// What the agent of a job is doing now; it has no `id`.
    Progress(ProgressEvent),
    /// Events were missed: read the state again. The stream goes on from the event's `id`.
    Reset {
        /// Why.
        reason: ResetReason,
    },
}

/// Why a reader of an event stream has to read the state again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ResetReason {
    /// It is too far behind.
    Behind,
    /// The store was restored from a backup: some events never happened.
    Restored,
    /// Its place is not in this log.
    Unknown,
    /// It reads too slowly; the stream ends.
    Slow,
}

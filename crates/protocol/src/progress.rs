//! Live progress of an agent.

use domain::{DispatchModes, Epoch, JobEvent, JobId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::live::{AlertEvent, FactoryEvent, HelloEvent, NeedsEvent};
use crate::operations::Metrics;
use crate::work::HeldJob;

/// Progress of an agent. An unknown value is absent, never 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// A short description: the current tool and its target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// Number of tool calls so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u32>,
    /// Changed files, the latest last; earlier ones may be omitted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Input tokens so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// Output tokens so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
    /// Cost in US dollars so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Turns of the agent so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// The engine's session id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// One held job in a renewal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldJobProgress {
    /// The job and its epoch.
    #[serde(flatten)]
    pub held: HeldJob,
    /// The agent's progress, if it changed since the last renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

impl From<HeldJob> for HeldJobProgress {
    fn from(held: HeldJob) -> Self {
        Self { held, progress: None }
    }
}

/// Progress of a job's agent: the event `progress` of the event streams. It has no position and is not stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgressEvent {
    /// The job.
    pub job_id: JobId,
    /// The epoch of the run.
    pub lease_epoch: Epoch,
    /// The agent's progress.
    pub progress: Progress,
}

/// An event in the stream of the fleet or of one job: the event's name, and its data as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "event", content = "data")]
pub enum StreamEvent {
    /// The stream is open. The event's `id` is its start, unless the client resumes.
    Hello(HelloEvent),
    /// An event of a job. The event's `id` is its position in the log.
    Job(JobEvent),
    /// Progress of a job's agent; without an `id`.
    Progress(ProgressEvent),
    /// A factory changed; without an `id`.
    Factory(FactoryEvent),
    /// An alert was raised or ended; without an `id`.
    Alert(AlertEvent),
    /// The dispatch modes changed, as in `GET /flags`; without an `id`.
    Flags(DispatchModes),
    /// The metrics changed, as in `GET /metrics`; without an `id`, once a second at most.
    Metrics(Metrics),
    /// The number of items of `GET /needs-me` changed; without an `id`.
    Needs(NeedsEvent),
    /// Events were missed: reload the state. The stream continues at the event's `id`.
    Reset {
        /// The reason.
        reason: ResetReason,
    },
}

/// Why a subscriber has to reload the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ResetReason {
    /// The subscriber is too far behind.
    Behind,
    /// The store was restored from a backup: events after the backup are lost.
    Restored,
    /// The subscriber's position is not in this log.
    Unknown,
    /// The subscriber reads too slowly; the stream ends.
    Slow,
}

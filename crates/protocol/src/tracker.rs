//! Items of trackers, and the jobs that are made of them [T6].

use domain::{JobId, ProductId, RepoName, StageName, Timestamp, TrackerItem, TrackerName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::JobView;

/// An item that becomes one job, however often it is delivered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngestRequest {
    /// The tracker.
    pub source: TrackerName,
    /// The item's key in its tracker. Tracker and key identify the job.
    pub key: String,
    /// One line.
    pub title: String,
    /// The text. The agent gets it as a quotation from outside.
    #[serde(default)]
    pub body: String,
    /// Labels; those that are valid tags become tags of the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The address of the item for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Who wrote it, in the tracker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The product; the one of the tracker when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_id: Option<ProductId>,
    /// The repository; the one of the tracker when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
}

/// What became of a delivered item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IngestOutcome {
    /// It became a job.
    Created,
    /// It was a job already.
    Known,
    /// It was a job already, and its text has changed since. The job keeps its text.
    Changed,
    /// It is not for the fleet: another event, no label, or an author who may not trigger jobs.
    Ignored,
    /// The same delivery arrived before.
    Repeated,
}

/// The answer to a delivered item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngestResponse {
    /// What became of it.
    pub outcome: IngestOutcome,
    /// The job, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobView>,
}

/// The answer to a webhook of a tracker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrackerWebhookResponse {
    /// What became of it.
    pub outcome: IngestOutcome,
    /// The job, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// Why it is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The job whose status is sent to its item again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EchoRequest {
    /// The job.
    pub job_id: JobId,
}

/// The trackers, and the newest items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrackerList {
    /// The configured trackers, in order of name.
    pub sources: Vec<TrackerSourceView>,
    /// The newest items first.
    pub items: Vec<TrackerItemView>,
    /// Items that became no job, newest first: a week long, or until a delivery of the item succeeds.
    #[serde(default)]
    pub rejected: Vec<RejectedItem>,
}

/// An item of a tracker whose last delivery was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RejectedItem {
    /// The tracker.
    pub source: TrackerName,
    /// The item's key.
    pub key: String,
    /// When it was delivered.
    pub at: Timestamp,
    /// Why it became no job.
    pub error: String,
}

/// A configured tracker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrackerSourceView {
    /// Its name.
    pub name: TrackerName,
    /// Whether the status of jobs is shown at its items.
    pub shows_status: bool,
    /// The label that makes an item a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Deliveries since the coordinator started.
    pub deliveries: u64,
    /// When the last one arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_delivery_at: Option<Timestamp>,
    /// Failed attempts in a row to show a status.
    pub failures: u32,
    /// The last error, while attempts fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the next attempt is made, while attempts fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

/// An item and its job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrackerItemView {
    /// The item.
    pub item: TrackerItem,
    /// Its title when it became a job.
    pub title: String,
    /// The product of the job.
    pub product_id: ProductId,
    /// The job.
    pub job_id: JobId,
    /// The job's stage, while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageName>,
    /// When it became a job.
    pub created_at: Timestamp,
    /// When a change of its text was noticed. The job keeps its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// When its status was last shown, since the coordinator started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_at: Option<Timestamp>,
    /// Why the status cannot be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

//! Outgoing webhooks.

use domain::{
    FactoryId, JobId, ProductId, PullRequest, RepoName, StageName, Timestamp, TrackerItem, WebhookFormat, WebhookName,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::operations::Alert;

/// The body of a webhook in the format `json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookNotice {
    /// The version of the format.
    pub v: u16,
    /// The id of the delivery; a repetition has the same one.
    pub id: String,
    /// `job.<stage>`, `alert.raised`, `alert.cleared` or `test`.
    pub event: String,
    /// When it happened.
    pub at: Timestamp,
    /// One sentence for people.
    pub text: String,
    /// The job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<WebhookJob>,
    /// The alert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert: Option<WebhookAlert>,
}

/// A job in a webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookJob {
    /// Its id.
    pub id: JobId,
    /// Title.
    pub title: String,
    /// Its product.
    pub product_id: ProductId,
    /// The stage that it entered.
    pub stage: StageName,
    /// The repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// Its pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequest>,
    /// The item of a tracker that it was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<TrackerItem>,
}

/// An alert in a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookAlert {
    /// Its code.
    pub code: String,
    /// What happened, to which thing, and what to do.
    pub message: String,
    /// Since when it lasts.
    pub since: Timestamp,
    /// The job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The factory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factory_id: Option<FactoryId>,
    /// The product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_id: Option<ProductId>,
    /// The credential, tracker, webhook, repository or document that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

impl WebhookAlert {
    /// An alert as webhooks send it.
    #[must_use]
    pub fn of(alert: &Alert) -> Self {
        let code = serde_json::to_value(alert.code).ok();
        Self {
            code: code.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned(),
            message: alert.message.clone(),
            since: alert.since,
            job_id: alert.job_id,
            factory_id: alert.factory_id.clone(),
            product_id: alert.product_id.clone(),
            subject: alert.subject.clone(),
        }
    }
}

/// The configured webhooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookList {
    /// In order of name.
    pub items: Vec<WebhookView>,
}

/// A webhook, and its state since the coordinator started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookView {
    /// Its name.
    pub name: WebhookName,
    /// The address of the receiver, without what may be secret in it.
    pub address: String,
    /// The format of the body.
    pub format: WebhookFormat,
    /// What it sends: `alerts`, `jobs`, `job.<stage>`.
    pub events: Vec<String>,
    /// Whether deliveries are signed.
    pub is_signed: bool,
    /// The products whose jobs and alerts it sends; all when empty.
    pub products: Vec<ProductId>,
    /// Deliveries that the receiver took since the coordinator started.
    pub delivered: u64,
    /// Failed attempts.
    pub failed: u64,
    /// Deliveries that were given up: after a day, or because the receiver rejected the message.
    pub dropped: u64,
    /// Failed attempts in a row.
    pub failures: u32,
    /// When the receiver last took a delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_delivery_at: Option<Timestamp>,
    /// The last error, while attempts fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the next attempt is made, while attempts fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

/// The result of a test of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookTestResponse {
    /// Whether the receiver took it.
    pub delivered: bool,
    /// The id of the delivery.
    pub delivery_id: String,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

//! What an event stream tells beside the events of jobs. None of it has a position: a client that reconnects reads the
//! state again.

use domain::{FactoryId, JobId, ProductId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::operations::AlertCode;

/// The event `hello`: the first of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelloEvent {
    /// The keep-alive interval: a stream that is silent for much longer is broken.
    #[schema(minimum = 0)]
    pub keep_alive_seconds: u64,
    /// The coordinator's version.
    pub version: String,
    /// Identifies the coordinator's build: after an upgrade an open page is outdated.
    pub build: String,
    /// The coordinator's name.
    pub name: String,
}

/// The event `factory`: a factory changed. Its seats in use follow from the events of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactoryEvent {
    /// The factory.
    pub factory_id: FactoryId,
    /// The latest change.
    pub change: FactoryChange,
}

/// How a factory changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FactoryChange {
    /// It is connected.
    Online,
    /// It signed off, is disconnected or sends no heartbeats.
    Offline,
    /// It takes no new jobs.
    Draining,
    /// It takes jobs again.
    Resumed,
    /// It was removed.
    Removed,
    /// Its capabilities, repositories, engines or seat limit changed.
    Updated,
}

/// The event `alert`: an alert was raised, or ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertEvent {
    /// The kind of alert.
    pub code: AlertCode,
    /// Whether it was raised or ended.
    pub change: AlertChange,
    /// The affected factory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factory_id: Option<FactoryId>,
    /// The affected product, if the alert is about the product as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_id: Option<ProductId>,
    /// The affected job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
}

/// How an alert changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertChange {
    /// It was raised, or affects another number of jobs.
    Raised,
    /// Its cause ended.
    Cleared,
}

/// The event `needs`: the number of items of `GET /needs-me` changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NeedsEvent {
    /// The number of items.
    #[schema(minimum = 0)]
    pub count: u64,
}

//! The metrics of the last hour, for charts.

use domain::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The metrics of the last hour. A step without any change has no point: the values are those of the point before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsHistory {
    /// The shortest distance of two points.
    #[schema(minimum = 1)]
    pub step_seconds: u64,
    /// Oldest first, 360 at most. The last one is not over yet.
    pub points: Vec<MetricsPoint>,
}

/// The metrics of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsPoint {
    /// When the step began.
    pub at: Timestamp,
    /// Jobs that waited for a seat at its end.
    #[schema(minimum = 0)]
    pub queued: u64,
    /// Jobs that a factory held at its end.
    #[schema(minimum = 0)]
    pub building: u64,
    /// Seats in use at its end.
    #[schema(minimum = 0)]
    pub seats_used: u64,
    /// All seats at its end.
    #[schema(minimum = 0)]
    pub seats_total: u64,
    /// How long the jobs that were dispatched in it had waited; null if there were none, or for a token of some
    /// products.
    #[serde(default)]
    pub lag_ms: Option<LagQuantiles>,
    /// Store operations in it; 0 for a token of some products.
    pub store_ops: StoreOperationCounts,
    /// Leases granted in it.
    #[schema(minimum = 0)]
    pub claims: u64,
}

/// How long jobs waited, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LagQuantiles {
    /// The median.
    #[schema(minimum = 0)]
    pub p50: u64,
    /// All but one in a hundred.
    #[schema(minimum = 0)]
    pub p99: u64,
}

/// Store operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreOperationCounts {
    /// Reads.
    #[schema(minimum = 0)]
    pub read: u64,
    /// Transactions.
    #[schema(minimum = 0)]
    pub write: u64,
}

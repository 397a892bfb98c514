//! Items of trackers: the issue that a job comes from [T6].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::TrackerName;

/// An item of a tracker, such as an issue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrackerItem {
    /// The tracker.
    pub source: TrackerName,
    /// The item's key in its tracker: `acme/notes#12`.
    pub key: String,
    /// The address of the item for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

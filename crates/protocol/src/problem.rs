//! Errors in the API: RFC 9457 problem details with a stable code.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error with its remedy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A URI for the kind of problem: `urn:gigafactory:problem:<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Title of the kind.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, and the remedy.
    pub detail: String,
    /// The stable code for programs.
    pub code: String,
    /// Further members: the manifest's findings, the allowed moves, the known products.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub more: serde_json::Value,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.detail, self.code)
    }
}

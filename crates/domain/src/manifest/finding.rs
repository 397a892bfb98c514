//! Findings of the manifest parser.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One error or warning about a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The line of the file, counted from 1.
    pub line: u32,
    /// The key as a path: `budget.usd`, `capabilities[2]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The expected and the found value. Safe to show on a terminal.
    pub message: String,
    /// Error or warning.
    pub severity: Severity,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The manifest is rejected.
    Error,
    /// The manifest is accepted.
    Warning,
}

impl Finding {
    pub(crate) fn error(line: u32, key: Option<String>, message: impl Into<String>) -> Self {
        Self { line, key, message: message.into(), severity: Severity::Error }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "line {}, {key}: {}", self.line, self.message),
            None => write!(f, "line {}: {}", self.line, self.message),
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_displays_line_key_and_message() {
        let finding = Finding::error(4, Some("budget.usd".into()), "expected a number");

        assert_eq!(finding.to_string(), "line 4, budget.usd: expected a number");
        assert_eq!(
            serde_json::to_value(&finding).unwrap(),
            serde_json::json!({"line": 4, "key": "budget.usd", "message": "expected a number", "severity": "error"})
        );
    }
}

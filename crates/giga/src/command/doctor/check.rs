//! The result of one check.

use serde::Serialize;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// What.
    pub(super) name: &'static str,
    /// How it is.
    pub(super) verdict: CheckOutcome,
    /// What was found.
    pub(super) found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

/// How a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckOutcome {
    /// Well.
    Ok,
    /// It works, or is not needed yet.
    Warn,
    /// It does not work.
    Fail,
}

impl Check {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, verdict: CheckOutcome::Ok, found: found.into(), remedy: None }
    }

    pub(super) fn warn(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, verdict: CheckOutcome::Warn, found: found.into(), remedy: Some(remedy.into()) }
    }

    pub(super) fn fail(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, verdict: CheckOutcome::Fail, found: found.into(), remedy: Some(remedy.into()) }
    }
}

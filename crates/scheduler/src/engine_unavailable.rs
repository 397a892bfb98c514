//! Why an engine of a factory is unavailable.

use domain::{Timestamp, UsageWindow};

/// Why an engine is unavailable. Ordered: what recovers soonest comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineUnavailable {
    /// The usage window of its credential is exhausted [B1].
    Window(UsageWindow),
    /// The provider has an outage. The factory retries.
    Paused {
        /// Time of the next retry.
        until: Timestamp,
        /// The error.
        problem: String,
    },
    /// The engine is not signed in, or unusable for another reason [B9].
    Unusable {
        /// The reason.
        problem: String,
    },
}

impl EngineUnavailable {
    /// When it ends by itself; absent if an operator has to act.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Window(window) => window.until,
            Self::Paused { until, .. } => Some(*until),
            Self::Unusable { .. } => None,
        }
    }
}

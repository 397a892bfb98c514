//! Why an engine of a factory gets no work for now.

use domain::{Timestamp, UsageWindow};

/// Why an engine of a factory gets no work for now. The order puts what passes by itself soonest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineUnavailable {
    /// The usage window of its login is used up [B1].
    Window(UsageWindow),
    /// Its provider is not available, and its factory tries it again by itself.
    Paused {
        /// When the factory tries it again.
        until: Timestamp,
        /// What is wrong.
        problem: String,
    },
    /// It is not signed in, or cannot be used for another reason [B9].
    Unusable {
        /// Which, in words.
        problem: String,
    },
}

impl EngineUnavailable {
    /// When it ends by itself; absent when a person has to end it.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Window(window) => window.until,
            Self::Paused { until, .. } => Some(*until),
            Self::Unusable { .. } => None,
        }
    }
}

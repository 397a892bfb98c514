//! Why a job failed, and why a run ended.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a job is failed or dead-lettered [J5].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// The engine ran over its wall-clock or idle limit.
    Timeout,
    /// Any limit of `budget` was reached.
    BudgetExceeded,
    /// The engine or the factory died.
    Crash,
    /// A prepare or verify command failed.
    VerifyFailed,
    /// The factory turned out not to offer what the job needs.
    CapabilityMismatch,
    /// None of the job's engines is there.
    NoEngine,
    /// The engine ended badly.
    EngineError,
    /// A reviewer or an operator said no.
    Rejected,
    /// A dependency failed and the job follows it.
    DepFailed,
    /// An operator stopped it.
    Cancelled,
    /// It was tried as often as its policy allows, or lost too many leases.
    RetriesExhausted,
    /// No factory accepted it, however often it was offered.
    Undeliverable,
}

/// Whether another attempt may end differently, as far as whoever failed can tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Retryability {
    /// It may.
    #[default]
    Worthwhile,
    /// It would end the same way: a person has to look first.
    Pointless,
}

impl Retryability {
    /// Whether nothing speaks against another attempt.
    pub fn is_worthwhile(&self) -> bool {
        *self == Self::Worthwhile
    }
}

impl FailureReason {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Timeout,
        Self::BudgetExceeded,
        Self::Crash,
        Self::VerifyFailed,
        Self::CapabilityMismatch,
        Self::NoEngine,
        Self::EngineError,
        Self::Rejected,
        Self::DepFailed,
        Self::Cancelled,
        Self::RetriesExhausted,
        Self::Undeliverable,
    ];

    /// The word in JSON, events and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::BudgetExceeded => "budget_exceeded",
            Self::Crash => "crash",
            Self::VerifyFailed => "verify_failed",
            Self::CapabilityMismatch => "capability_mismatch",
            Self::NoEngine => "no_engine",
            Self::EngineError => "engine_error",
            Self::Rejected => "rejected",
            Self::DepFailed => "dep_failed",
            Self::Cancelled => "cancelled",
            Self::RetriesExhausted => "retries_exhausted",
            Self::Undeliverable => "undeliverable",
        }
    }

    /// Whether another attempt could end differently. What a person or a limit decided is not tried again.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::Timeout
            | Self::Crash
            | Self::VerifyFailed
            | Self::CapabilityMismatch
            | Self::NoEngine
            | Self::EngineError => true,
            Self::BudgetExceeded
            | Self::Rejected
            | Self::DepFailed
            | Self::Cancelled
            | Self::RetriesExhausted
            | Self::Undeliverable => false,
        }
    }

    /// Whether a worker may give this as the reason of its failure; the others are the coordinator's to say.
    pub fn is_a_workers_word(self) -> bool {
        self.is_retryable() || self == Self::BudgetExceeded
    }
}

impl std::fmt::Display for FailureReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

//! Failure reasons of jobs and runs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a job failed or was dead-lettered [J5].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// A wall-clock or idle limit was reached.
    Timeout,
    /// A limit of `budget` was reached.
    BudgetExceeded,
    /// The engine or the factory crashed.
    Crash,
    /// A prepare or verify command failed.
    VerifyFailed,
    /// The factory lacks a required capability.
    CapabilityMismatch,
    /// None of the job's engines is available on the factory.
    NoEngine,
    /// The engine ended with an error.
    EngineError,
    /// A reviewer or an operator rejected the work.
    Rejected,
    /// A dependency failed, and the manifest says `onDepFailure: fail`.
    DepFailed,
    /// An operator cancelled the job.
    Cancelled,
    /// The retry limit or the limit of lost leases was reached.
    RetriesExhausted,
    /// No factory accepted any offer.
    Undeliverable,
}

/// Whether a retry may succeed, as far as the reporter knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Retryability {
    /// A retry may succeed.
    #[default]
    Worthwhile,
    /// A retry would fail the same way: an operator has to act first.
    Pointless,
}

impl Retryability {
    /// Whether a retry may succeed.
    pub fn may_succeed_on_retry(&self) -> bool {
        *self == Self::Worthwhile
    }
}

impl FailureReason {
    /// All reasons.
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

    /// The name in JSON, events and logs.
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

    /// Whether a retry may succeed. Decisions by people and limits are not retried.
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

    /// Whether a worker may report this reason; only the coordinator sets the others.
    pub fn may_be_reported(self) -> bool {
        self.is_retryable() || self == Self::BudgetExceeded
    }
}

impl std::fmt::Display for FailureReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

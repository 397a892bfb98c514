//! Stage names and the allowed moves.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The name of a stage in the API and for users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageName {
    /// Waits for a seat.
    Queued,
    /// Waits for other jobs or for an answer.
    Blocked,
    /// A factory holds the lease.
    Assigned,
    /// The agent is running.
    Building,
    /// Waits for review.
    Review,
    /// Verified, ready to ship.
    Testing,
    /// Merged.
    Shipped,
    /// Ended without success.
    Failed,
    /// Not retried until an operator requeues it.
    DeadLetter,
}

impl StageName {
    /// All stages, in the order of a job's life.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Blocked,
        Self::Assigned,
        Self::Building,
        Self::Review,
        Self::Testing,
        Self::Shipped,
        Self::Failed,
        Self::DeadLetter,
    ];

    /// The name in JSON, tables and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Blocked => "blocked",
            Self::Assigned => "assigned",
            Self::Building => "building",
            Self::Review => "review",
            Self::Testing => "testing",
            Self::Shipped => "shipped",
            Self::Failed => "failed",
            Self::DeadLetter => "dead_letter",
        }
    }

    /// Whether the stage is final unless an operator acts.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Shipped | Self::Failed | Self::DeadLetter)
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for StageName {
    type Err = UnknownStage;

    fn from_str(text: &str) -> Result<Self, UnknownStage> {
        Self::ALL
            .into_iter()
            .find(|stage| stage.as_str() == text)
            .ok_or_else(|| UnknownStage(crate::names::escape_for_terminal(text)))
    }
}

/// A text that names no stage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a stage: expected queued, blocked, assigned, building, review, testing, shipped, failed or dead_letter"
)]
pub struct UnknownStage(String);

impl StageName {
    /// The stages that a job can move to, for refusals. The golden grid test compares it with the transition table.
    pub fn moves(self) -> &'static [Self] {
        match self {
            Self::Queued => &[Self::Blocked, Self::Assigned, Self::Failed, Self::DeadLetter],
            Self::Blocked => &[Self::Queued, Self::Shipped, Self::Failed],
            Self::Assigned => &[Self::Queued, Self::Building, Self::Failed, Self::DeadLetter],
            Self::Building => {
                &[Self::Queued, Self::Blocked, Self::Review, Self::Testing, Self::Failed, Self::DeadLetter]
            }
            Self::Review => &[Self::Queued, Self::Testing, Self::Shipped, Self::Failed],
            Self::Testing => &[Self::Queued, Self::Review, Self::Shipped, Self::Failed],
            Self::Shipped => &[],
            // A composite goes back to `blocked`: it has no run.
            Self::Failed => &[Self::Queued, Self::Blocked],
            Self::DeadLetter => &[Self::Queued],
        }
    }
}

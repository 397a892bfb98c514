//! The names of the stages, and where a job can go from each.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The name of a stage, as people and programs see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageName {
    /// Waits for a seat.
    Queued,
    /// Waits for other jobs or for a person.
    Blocked,
    /// A factory holds it.
    Assigned,
    /// The agent is at work.
    Building,
    /// People look at the work.
    Review,
    /// The work may ship.
    Testing,
    /// Merged.
    Shipped,
    /// Ended badly.
    Failed,
    /// Out of the running.
    DeadLetter,
}

impl StageName {
    /// All of them, in the order of a job's life.
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

    /// The word in JSON, tables and logs.
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

    /// Whether the job rests for good unless a person acts.
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
    /// Where a job can go from here: what a refusal names. The golden grid proves that it says the same as the table.
    pub fn moves(self) -> &'static [Self] {
        match self {
            Self::Queued => &[Self::Assigned, Self::Failed, Self::DeadLetter],
            Self::Blocked => &[Self::Queued, Self::Failed],
            Self::Assigned => &[Self::Queued, Self::Building, Self::Failed, Self::DeadLetter],
            Self::Building => {
                &[Self::Queued, Self::Blocked, Self::Review, Self::Testing, Self::Failed, Self::DeadLetter]
            }
            Self::Review => &[Self::Queued, Self::Testing, Self::Failed],
            Self::Testing => &[Self::Queued, Self::Shipped, Self::Failed],
            Self::Shipped => &[],
            Self::Failed | Self::DeadLetter => &[Self::Queued],
        }
    }
}

//! The six folders.

use std::fmt;

use domain::StageName;
use serde::{Deserialize, Serialize};

/// One of the folders that files move through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Folder {
    /// Waits for a seat, for other jobs or for an operator.
    Inbox,
    /// An agent is at work.
    Building,
    /// Reviewers check the work.
    Review,
    /// The work may ship.
    Testing,
    /// Merged.
    Shipped,
    /// Ended badly.
    Failed,
}

impl Folder {
    /// All of them, in the order of a job's life.
    pub(crate) const ALL: [Self; 6] =
        [Self::Inbox, Self::Building, Self::Review, Self::Testing, Self::Shipped, Self::Failed];

    /// Where the file of a job in this stage belongs.
    pub(crate) fn of(stage: StageName) -> Self {
        match stage {
            StageName::Queued | StageName::Blocked => Self::Inbox,
            StageName::Assigned | StageName::Building => Self::Building,
            StageName::Review => Self::Review,
            StageName::Testing => Self::Testing,
            StageName::Shipped => Self::Shipped,
            StageName::Failed | StageName::DeadLetter => Self::Failed,
        }
    }

    /// Its name on disk.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Building => "building",
            Self::Review => "review",
            Self::Testing => "testing",
            Self::Shipped => "shipped",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

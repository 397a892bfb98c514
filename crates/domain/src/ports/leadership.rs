//! Leadership: one coordinator at a time decides, and can prove that it still may.

use std::fmt;
use std::time::Duration;

use crate::time::Timestamp;

/// The leadership of one process over a store.
pub trait Leadership: Send + Sync {
    /// When the store last confirmed it, on the monotonic clock; measured before the store was asked. `None` where no
    /// other process can lead.
    fn proved_at(&self) -> Option<Duration>;
    /// Whether an earlier leader may not know yet that it was replaced, and may still answer factories.
    fn was_taken_over(&self) -> bool;
}

/// The leadership over a store that only one process can open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoleLeader;

impl Leadership for SoleLeader {
    fn proved_at(&self) -> Option<Duration> {
        None
    }

    fn was_taken_over(&self) -> bool {
        false
    }
}

/// The coordinator that leads, as the store shows it to others.
#[derive(Clone, PartialEq, Eq)]
pub struct Leader {
    /// Rises with every change of leadership.
    pub term: u64,
    /// Where the other coordinators reach it; `None` if it does not serve them.
    pub address: Option<String>,
    /// Proves to the leader that a request was forwarded by another coordinator. Of this term only.
    pub hop_secret: String,
    /// Since when it leads.
    pub since: Timestamp,
}

/// Without the secret.
impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leader")
            .field("term", &self.term)
            .field("address", &self.address)
            .field("since", &self.since)
            .finish_non_exhaustive()
    }
}

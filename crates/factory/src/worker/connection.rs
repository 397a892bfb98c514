//! Whether the coordinator can be reached: logged when that changes, not with every attempt.

use std::sync::atomic::{AtomicBool, Ordering};

use client::ClientError;
use tracing::{debug, info, warn};

/// Whether the coordinator was available at the last attempt.
#[derive(Debug, Default)]
pub(super) struct Connection {
    is_lost: AtomicBool,
}

impl Connection {
    /// The coordinator did not answer.
    pub(super) fn lost(&self, error: &ClientError) {
        match self.becomes(Reachability::Lost) {
            true => warn!(%error, "The coordinator is unreachable, reconnecting"),
            false => debug!(%error, "The coordinator is still unreachable"),
        }
    }

    /// The coordinator answered.
    pub(super) fn restored(&self) {
        if self.becomes(Reachability::Restored) {
            info!("The coordinator is reachable again");
        }
    }

    /// Whether this is a change.
    fn becomes(&self, reach: Reachability) -> bool {
        let is_lost = reach == Reachability::Lost;
        self.is_lost.swap(is_lost, Ordering::Relaxed) != is_lost
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reachability {
    Lost,
    Restored,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_the_connection_is_reported() {
        use Reachability::{Lost, Restored};
        let connection = Connection::default();

        let reported = [Restored, Lost, Lost, Lost, Restored, Restored, Lost].map(|reach| connection.becomes(reach));

        assert_eq!(reported, [false, true, false, false, true, false, true]);
    }
}

//! The end of the log in memory, so that those who follow closely read nothing from the disk.

use std::collections::VecDeque;

use domain::{Position, Recorded, Scope};
use parking_lot::Mutex;

/// Events that are kept: some seconds of a busy fleet, and a few megabytes.
const KEPT_MAX: usize = 16_384;

/// The latest events, in order and without gaps.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<VecDeque<Recorded>>);

impl Recent {
    /// Adds the events of a commit behind those that are kept.
    pub(crate) fn extend(&self, events: Vec<Recorded>) {
        let mut kept = self.0.lock();
        kept.extend(events);
        let surplus = kept.len().saturating_sub(KEPT_MAX);
        kept.drain(..surplus);
    }

    /// The first `limit` events after a position; `None` where memory does not reach back that far.
    pub(crate) fn after(&self, scope: &Scope, after: Position, limit: u16) -> Option<Vec<Recorded>> {
        let kept = self.0.lock();
        if kept.front()?.position.0 > after.0 + 1 {
            return None;
        }
        let start = kept.partition_point(|event| event.position <= after);
        Some(kept.range(start..).filter(|event| scope.covers(event)).take(limit.into()).cloned().collect())
    }
}

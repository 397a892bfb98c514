//! The tail of the log in memory, so that up-to-date subscribers read nothing from the store.

use std::collections::VecDeque;

use domain::{Position, Scope, StoredEvent};
use parking_lot::Mutex;

/// Number of events kept: some seconds of a busy fleet, a few megabytes.
const KEPT_MAX: usize = 16_384;

/// The latest events, in order and without gaps.
#[derive(Debug, Default)]
pub(crate) struct RecentEvents(Mutex<VecDeque<StoredEvent>>);

impl RecentEvents {
    /// Appends the events of a commit. If another process wrote events in between, the older ones are dropped.
    pub(crate) fn extend(&self, events: Vec<StoredEvent>) {
        let Some(first) = events.first().map(|event| event.position) else { return };
        let mut kept = self.0.lock();
        if kept.back().is_some_and(|last| last.position.next() != first) {
            kept.clear();
        }
        kept.extend(events);
        let surplus = kept.len().saturating_sub(KEPT_MAX);
        kept.drain(..surplus);
    }

    /// The first `limit` events after a position, of a log that ends at `end`; `None` if memory does not cover the
    /// range.
    pub(crate) fn after(&self, scope: &Scope, after: Position, end: Position, limit: u16) -> Option<Vec<StoredEvent>> {
        let kept = self.0.lock();
        if kept.front()?.position.0 > after.0.saturating_add(1) || kept.back()?.position < end {
            return None;
        }
        let start = kept.partition_point(|event| event.position <= after);
        Some(kept.range(start..).filter(|event| scope.covers(event)).take(limit.into()).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use domain::{EventSeq, JobId};

    use super::*;

    fn event(position: u64) -> StoredEvent {
        StoredEvent {
            position: Position(position),
            json: "{}".into(),
            job: JobId::from_bytes([1; 16]),
            product: "notes".parse().unwrap(),
            seq: EventSeq(position),
        }
    }

    #[test]
    fn nothing_follows_a_position_beyond_the_end() {
        let recent = RecentEvents::default();
        recent.extend(vec![event(1)]);

        assert_eq!(after(&recent, u64::MAX, 1), Some(vec![]));
    }

    fn after(recent: &RecentEvents, after: u64, end: u64) -> Option<Vec<u64>> {
        let events = recent.after(&Scope::Fleet, Position(after), Position(end), 10)?;
        Some(events.iter().map(|event| event.position.0).collect())
    }

    #[test]
    fn memory_answers_only_for_a_range_it_covers() {
        let recent = RecentEvents::default();
        recent.extend(vec![event(3), event(4)]);
        recent.extend(vec![event(5)]);

        assert_eq!(after(&recent, 2, 5), Some(vec![3, 4, 5]));
        assert_eq!(after(&recent, 5, 5), Some(vec![]));
        assert_eq!((after(&recent, 1, 5), after(&recent, 4, 6)), (None, None));
    }

    #[test]
    fn a_gap_clears_the_kept_events() {
        let recent = RecentEvents::default();
        recent.extend(vec![event(3)]);
        recent.extend(vec![event(7)]);

        assert_eq!((after(&recent, 2, 7), after(&recent, 6, 7)), (None, Some(vec![7])));
    }
}

//! The end of the event log in memory.

use std::collections::VecDeque;

use crate::{Position, StoredEvent};

/// The number of events kept: some seconds of a busy fleet, a few megabytes.
const KEPT_MAX: usize = 16_384;

/// The latest events of the log, in order and without gaps.
#[derive(Debug, Default)]
pub struct RecentEvents {
    events: VecDeque<StoredEvent>,
}

impl RecentEvents {
    /// Appends events in log order. Known ones are skipped; a gap drops the older ones.
    pub fn append(&mut self, events: impl IntoIterator<Item = StoredEvent>) {
        for event in events {
            match self.end() {
                Some(end) if event.position <= end => continue,
                Some(end) if event.position != end.next() => self.events.clear(),
                Some(_) | None => {}
            }
            self.events.push_back(event);
        }
        let surplus = self.events.len().saturating_sub(KEPT_MAX);
        self.events.drain(..surplus);
    }

    /// The position of the last event.
    pub fn end(&self) -> Option<Position> {
        self.events.back().map(|event| event.position)
    }

    /// The events after a position; none if memory does not reach back that far.
    pub fn after(&self, after: Position) -> Option<impl Iterator<Item = &StoredEvent>> {
        if self.events.front()?.position.0 > after.0.saturating_add(1) {
            return None;
        }
        let start = self.events.partition_point(|event| event.position <= after);
        Some(self.events.range(start..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventSeq, JobId};

    fn event(position: u64) -> StoredEvent {
        StoredEvent {
            position: Position(position),
            json: "{}".into(),
            job: JobId::from_bytes([1; 16]),
            product: "notes".parse().unwrap(),
            seq: EventSeq(position),
        }
    }

    fn recent(positions: &[u64]) -> RecentEvents {
        let mut recent = RecentEvents::default();
        recent.append(positions.iter().copied().map(event));
        recent
    }

    fn after(recent: &RecentEvents, after: u64) -> Option<Vec<u64>> {
        Some(recent.after(Position(after))?.map(|event| event.position.0).collect())
    }

    #[test]
    fn no_event_follows_a_position_beyond_the_end() {
        assert_eq!(after(&recent(&[1]), u64::MAX), Some(vec![]));
    }

    #[test]
    fn memory_answers_only_for_a_range_it_covers() {
        let recent = recent(&[3, 4, 5]);

        assert_eq!(after(&recent, 2), Some(vec![3, 4, 5]));
        assert_eq!(after(&recent, 5), Some(vec![]));
        assert_eq!(after(&recent, 1), None);
        assert_eq!(after(&RecentEvents::default(), 0), None);
    }

    #[test]
    fn known_events_are_skipped_and_a_gap_clears_the_kept_ones() {
        let mut recent = recent(&[3, 4]);

        recent.append([event(4), event(5)]);
        assert_eq!(after(&recent, 2), Some(vec![3, 4, 5]));

        recent.append([event(9)]);
        assert_eq!((after(&recent, 2), after(&recent, 8)), (None, Some(vec![9])));
    }

    #[test]
    fn the_oldest_events_are_dropped_first() {
        let last = KEPT_MAX as u64 + 1;
        let recent = recent(&(1..=last).collect::<Vec<_>>());

        assert_eq!((after(&recent, 0), after(&recent, 1).map(|kept| kept.len())), (None, Some(KEPT_MAX)));
    }
}

//! The tail of the log in memory, so that up-to-date subscribers read nothing from the store.

use domain::{Position, Scope, StoredEvent};
use parking_lot::Mutex;

/// The latest events, shared by the writer and the readers of a store.
#[derive(Debug, Default)]
pub(crate) struct RecentEvents(Mutex<domain::RecentEvents>);

impl RecentEvents {
    /// Appends the events of a commit. Older ones are dropped if the commit does not follow them: another process wrote in
    /// between, or the log was restored and positions are used again.
    pub(crate) fn extend(&self, events: Vec<StoredEvent>) {
        let Some(first) = events.first().map(|event| event.position) else { return };
        let mut kept = self.0.lock();
        if kept.end().is_some_and(|end| end.next() != first) {
            *kept = domain::RecentEvents::default();
        }
        kept.append(events);
    }

    /// The first `limit` events after a position, of a log that ends at `end`; `None` if memory does not cover the
    /// range.
    pub(crate) fn after(&self, scope: &Scope, after: Position, end: Position, limit: u16) -> Option<Vec<StoredEvent>> {
        let kept = self.0.lock();
        if kept.end()? < end {
            return None;
        }
        Some(kept.after(after)?.filter(|event| scope.covers(event)).take(limit.into()).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use domain::{EventSeq, JobId};

    use super::*;

    #[test]
    fn memory_that_ends_before_the_log_answers_nothing() {
        let recent = RecentEvents::default();
        recent.extend(vec![StoredEvent {
            position: Position(3),
            json: "{}".into(),
            job: JobId::from_bytes([1; 16]),
            product: "notes".parse().unwrap(),
            seq: EventSeq(1),
        }]);
        let after = |end| recent.after(&Scope::Fleet, Position(2), Position(end), 10).map(|events| events.len());

        assert_eq!((after(3), after(4)), (Some(1), None));
    }
}

//! Deduplication of published messages by id.

use std::collections::VecDeque;
use std::time::Duration;

use domain::MessageId;
use foldhash::{HashSet, HashSetExt as _};

/// Keeps ids for a limited time and up to a maximum number.
pub(crate) struct DedupWindow {
    span: Duration,
    len_max: usize,
    ids: HashSet<MessageId>,
    /// In the order of insertion.
    by_age: VecDeque<(Duration, MessageId)>,
}

impl DedupWindow {
    pub(crate) fn new(span: Duration, len_max: usize) -> Self {
        Self { span, len_max, ids: HashSet::new(), by_age: VecDeque::new() }
    }

    pub(crate) fn contains(&mut self, id: &MessageId, now: Duration) -> bool {
        self.evict_expired(now);
        self.ids.contains(id)
    }

    pub(crate) fn record(&mut self, id: MessageId, now: Duration) {
        if self.ids.insert(id) {
            self.by_age.push_back((now, id));
        }
        while self.by_age.len() > self.len_max {
            self.evict_oldest();
        }
    }

    fn evict_expired(&mut self, now: Duration) {
        while self.by_age.front().is_some_and(|(at, _)| now.saturating_sub(*at) >= self.span) {
            self.evict_oldest();
        }
    }

    fn evict_oldest(&mut self) {
        if let Some((_, id)) = self.by_age.pop_front() {
            self.ids.remove(&id);
        }
    }
}

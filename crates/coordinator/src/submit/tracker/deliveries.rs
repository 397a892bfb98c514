//! Deliveries that were received: a repeated one makes nothing.

use std::collections::{HashSet, VecDeque};

use domain::TrackerName;

/// Remembered deliveries. A signed timestamp bounds their age; items are idempotent beyond it.
const DELIVERIES_MAX: usize = 4_096;

/// The last deliveries, by tracker and delivery id.
#[derive(Default)]
pub(crate) struct DeliveryLog {
    seen: HashSet<(TrackerName, String)>,
    order: VecDeque<(TrackerName, String)>,
}

impl DeliveryLog {
    /// Records a delivery by its ids. `false` if one of them was received before.
    pub(crate) fn record(&mut self, source: &TrackerName, ids: &[String]) -> bool {
        let delivery = |id: &String| (source.clone(), id.clone());
        if ids.iter().any(|id| self.seen.contains(&delivery(id))) {
            return false;
        }
        for id in ids {
            self.seen.insert(delivery(id));
            self.order.push_back(delivery(id));
        }
        while self.order.len() > DELIVERIES_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.seen.remove(&oldest);
        }
        true
    }

    /// Forgets a delivery that could not be processed: its repetition counts.
    pub(crate) fn forget(&mut self, source: &TrackerName, ids: &[String]) {
        let is_of_it = |known: &(TrackerName, String)| known.0 == *source && ids.contains(&known.1);
        self.seen.retain(|known| !is_of_it(known));
        self.order.retain(|known| !is_of_it(known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [T6] [attack: forged or repeated webhook]
    #[test]
    fn a_repeated_delivery_is_known_within_bounds() {
        let (github, other): (TrackerName, TrackerName) = ("github".parse().unwrap(), "other".parse().unwrap());
        let mut log = DeliveryLog::default();

        assert!(log.record(&github, &["1".to_owned(), "body".to_owned()]));
        assert!(!log.record(&github, &["2".to_owned(), "body".to_owned()]));
        assert!(log.record(&other, &["1".to_owned()]));
        log.forget(&github, &["1".to_owned(), "body".to_owned()]);
        assert!(log.record(&github, &["1".to_owned()]));
        for n in 0..DELIVERIES_MAX * 2 {
            log.record(&other, &[format!("x{n}")]);
        }
        assert_eq!((log.seen.len(), log.order.len()), (DELIVERIES_MAX, DELIVERIES_MAX));
    }
}

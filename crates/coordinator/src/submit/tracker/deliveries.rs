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
    /// Whether a delivery with one of these ids was processed before.
    pub(crate) fn has_seen(&self, source: &TrackerName, ids: &[String]) -> bool {
        ids.iter().any(|id| self.seen.contains(&(source.clone(), id.clone())))
    }

    /// Records a delivery that was processed. One that failed, or is still in progress, is not known: its repetition
    /// counts, and finds the item that the other one made.
    pub(crate) fn record(&mut self, source: &TrackerName, ids: &[String]) {
        for id in ids {
            let delivery = (source.clone(), id.clone());
            if self.seen.insert(delivery.clone()) {
                self.order.push_back(delivery);
            }
        }
        while self.order.len() > DELIVERIES_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.seen.remove(&oldest);
        }
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

        let first = ["1".to_owned(), "body".to_owned()];
        assert!(!log.has_seen(&github, &first));
        log.record(&github, &first);
        assert!(log.has_seen(&github, &["2".to_owned(), "body".to_owned()]));
        assert!(!log.has_seen(&other, &["1".to_owned()]));
        for n in 0..DELIVERIES_MAX * 2 {
            log.record(&other, &[format!("x{n}")]);
        }
        log.record(&other, &[format!("x{}", DELIVERIES_MAX * 2 - 1)]);
        assert_eq!((log.seen.len(), log.order.len()), (DELIVERIES_MAX, DELIVERIES_MAX));
    }
}

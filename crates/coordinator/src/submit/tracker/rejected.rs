//! Items that became no job. They are shown, because few trackers deliver an item again by themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{Timestamp, TrackerName, clean_line, counted};
use protocol::{Alert, AlertCode, RejectedItem};
use tracing::warn;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::read::alerts::{about, alert};
use crate::submit::sanitize::short;

/// Items that are remembered, of all trackers.
const ITEMS_MAX: usize = 100;

/// How long an item is shown.
const SHOWN_FOR: Duration = Duration::from_hours(7 * 24);

const KEY_CHARS_MAX: usize = 110;
const ERROR_CHARS_MAX: usize = 500;

/// The items whose last delivery was rejected, since the start.
#[derive(Default)]
pub(crate) struct RejectedItems {
    items: BTreeMap<(TrackerName, String), (Timestamp, String)>,
}

impl RejectedItems {
    fn keep(&mut self, item: (TrackerName, String), at: Timestamp, error: String) {
        self.items.insert(item, (at, error));
        while self.items.len() > ITEMS_MAX
            && let Some(oldest) = self.items.iter().min_by_key(|(_, (at, _))| *at).map(|(item, _)| item.clone())
        {
            self.items.remove(&oldest);
        }
    }

    fn remove(&mut self, item: &(TrackerName, String)) -> bool {
        self.items.remove(item).is_some()
    }

    /// Newest first.
    fn shown(&self, now: Timestamp) -> Vec<RejectedItem> {
        let current = self.items.iter().filter(|(_, (at, _))| now.since(*at) < SHOWN_FOR);
        let mut shown: Vec<RejectedItem> = current
            .map(|((source, key), (at, error))| RejectedItem {
                source: source.clone(),
                key: key.clone(),
                at: *at,
                error: error.clone(),
            })
            .collect();
        shown.sort_by(|one, other| other.at.cmp(&one.at).then_with(|| one.key.cmp(&other.key)));
        shown
    }
}

impl Coordinator {
    /// Remembers what became of a delivery of an item: a success ends what was shown of earlier failures.
    pub(super) fn note_ingested(&self, source: &TrackerName, key: &str, error: Option<&Error>) {
        let item = (source.clone(), short(&clean_line(key), KEY_CHARS_MAX));
        let Some(error) = error else {
            if self.tracker.rejected.lock().remove(&item) {
                self.live.note();
            }
            return;
        };
        let why = short(&clean_line(&error.to_string()), ERROR_CHARS_MAX);
        warn!(tracker = %source, "Item {} of tracker `{source}` became no job: {why}", item.1);
        self.tracker.rejected.lock().keep(item, self.now(), why);
        self.live.note();
    }

    /// The items that became no job, newest first.
    pub(crate) fn rejected_items(&self) -> Vec<RejectedItem> {
        self.tracker.rejected.lock().shown(self.now())
    }

    /// One alert for each tracker with such items.
    pub(crate) fn rejection_alerts(&self) -> Vec<Alert> {
        let mut by_source: BTreeMap<TrackerName, Vec<RejectedItem>> = BTreeMap::new();
        for item in self.rejected_items() {
            by_source.entry(item.source.clone()).or_default().push(item);
        }
        let told = by_source.into_iter().filter_map(|(source, items)| {
            let (newest, oldest) = (items.first()?, items.last()?);
            let count = counted(items.len(), "item");
            let message = format!(
                "{count} of tracker `{source}` became no job; the last one is {}: {}: correct that, then deliver it again",
                newest.key, newest.error
            );
            Some(about(alert(AlertCode::ItemRejected, message, oldest.at, None), &source))
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [T6]
    #[test]
    fn rejected_items_are_bounded_and_end_after_a_week() {
        let source: TrackerName = "desk".parse().unwrap();
        let at = |n: usize| Timestamp::from_millis(1_000 * i64::try_from(n).unwrap());
        let mut items = RejectedItems::default();
        for n in 0..2 * ITEMS_MAX {
            items.keep((source.clone(), format!("DESK-{n}")), at(n), "no".to_owned());
        }

        let shown = items.shown(at(2 * ITEMS_MAX));
        assert_eq!((shown.len(), shown[0].key.as_str()), (ITEMS_MAX, "DESK-199"));
        assert!(items.remove(&(source.clone(), "DESK-199".to_owned())));
        assert!(!items.remove(&(source, "DESK-1".to_owned())));
        assert_eq!(items.shown(at(0).after(SHOWN_FOR + Duration::from_secs(150))).len(), ITEMS_MAX - 52);
    }
}

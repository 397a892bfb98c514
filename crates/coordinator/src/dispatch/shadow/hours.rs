//! What a comparison has counted, by product and hour: in memory, and in one small document each, so that it survives a
//! restart and a takeover.
//!
//! A document is written only after its counts changed: a fleet without decisions writes nothing [I14].

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use domain::{Collection, Expected, ProductId, Revision, Timestamp, Versioned};
use protocol::{Divergence, ShadowCounts, ShadowLag};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::commit::cas_documents::PutOutcome;
use crate::coordinator::Coordinator;
use crate::error::Error;

/// Hours that are kept: a week.
const HOURS_MAX: i64 = 168;

/// Divergences that are kept, per hour and in all.
pub(crate) const DIVERGENCES_MAX: usize = 200;

const HOUR: Duration = Duration::from_hours(1);

/// The upper bounds of the classes of lags, in milliseconds. The last class has none.
const LAG_BOUNDS_MS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];

/// A product and the number of an hour since 1970.
type HourKey = (ProductId, i64);

/// The hours with decisions.
#[derive(Default)]
pub(crate) struct ShadowHours {
    hours: BTreeMap<HourKey, StoredHour>,
}

/// Documents that differ from memory.
struct HourChanges {
    written: Vec<(HourKey, Expected, CountedHour)>,
    removed: Vec<(HourKey, Revision)>,
}

/// An hour and its document.
#[derive(Default)]
struct StoredHour {
    hour: CountedHour,
    revision: Option<Revision>,
    is_changed: bool,
}

/// What was counted for one product in one hour.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CountedHour {
    v: u32,
    product_id: Option<ProductId>,
    number: i64,
    pub(crate) counts: ShadowCounts,
    pub(crate) lag: LagClasses,
    /// Oldest first.
    pub(crate) divergences: VecDeque<Divergence>,
}

/// Lags by class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LagClasses {
    counts: Vec<u64>,
    max_ms: u64,
}

impl LagClasses {
    pub(crate) fn record(&mut self, lag: Duration) {
        let lag_ms = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
        let class = LAG_BOUNDS_MS.iter().position(|bound| lag_ms <= *bound).unwrap_or(LAG_BOUNDS_MS.len());
        self.counts.resize(LAG_BOUNDS_MS.len() + 1, 0);
        self.counts[class] += 1;
        self.max_ms = self.max_ms.max(lag_ms);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.resize(LAG_BOUNDS_MS.len() + 1, 0);
        for (own, other) in self.counts.iter_mut().zip(&other.counts) {
            *own += other;
        }
        self.max_ms = self.max_ms.max(other.max_ms);
    }

    /// The quantiles, as the upper bounds of their classes.
    pub(crate) fn quantiles(&self) -> Option<ShadowLag> {
        let all: u64 = self.counts.iter().sum();
        let within = |percent: u64| {
            let mut left = (all * percent).div_ceil(100);
            let class = self.counts.iter().position(|count| {
                left = left.saturating_sub(*count);
                left == 0
            });
            class.and_then(|class| LAG_BOUNDS_MS.get(class)).map_or(self.max_ms, |bound| self.max_ms.min(*bound))
        };
        (all > 0).then(|| ShadowLag { p50_ms: within(50), p99_ms: within(99), max_ms: self.max_ms })
    }
}

impl ShadowHours {
    /// The current hour of a product, to count in.
    pub(crate) fn of(&mut self, product: &ProductId, now: Timestamp) -> &mut CountedHour {
        let number = number_of(now);
        let stored = self.hours.entry((product.clone(), number)).or_default();
        stored.is_changed = true;
        let hour = &mut stored.hour;
        (hour.v, hour.number) = (1, number);
        hour.product_id.get_or_insert_with(|| product.clone());
        hour
    }

    /// Adds a divergence to the hour of its time.
    pub(crate) fn diverged(&mut self, divergence: Divergence) {
        let product = divergence.product_id.clone();
        let hour = self.of(&product, divergence.at);
        if hour.divergences.len() >= DIVERGENCES_MAX {
            hour.divergences.pop_front();
        }
        hour.divergences.push_back(divergence);
    }

    /// The hours of the last week, oldest first for each product.
    pub(crate) fn recent(&self, now: Timestamp) -> impl Iterator<Item = (&ProductId, Timestamp, &CountedHour)> {
        let first = number_of(now) - HOURS_MAX;
        let recent = self.hours.iter().filter(move |((_, number), _)| *number > first);
        recent.map(|((product, number), stored)| (product, start_of(*number), &stored.hour))
    }

    fn load(&mut self, hour: Versioned<CountedHour>) {
        let Versioned { value: hour, revision } = hour;
        let Some(product) = hour.product_id.clone() else { return };
        let key = (product, hour.number);
        self.hours.insert(key, StoredHour { hour, revision: Some(revision), is_changed: false });
    }

    /// The documents to write and to remove.
    fn changes(&mut self, now: Timestamp) -> HourChanges {
        let mut written = Vec::new();
        for (key, stored) in self.hours.iter_mut().filter(|(_, stored)| stored.is_changed) {
            stored.is_changed = false;
            let expected = stored.revision.map_or(Expected::Absent, Expected::At);
            written.push((key.clone(), expected, stored.hour.clone()));
        }
        // Hours that nothing follows cost no write of their own.
        let first = if written.is_empty() { i64::MIN } else { number_of(now) - HOURS_MAX };
        let old = self.hours.iter().filter(|((_, number), _)| *number <= first);
        let removed = old.filter_map(|(key, stored)| Some((key.clone(), stored.revision?))).collect();
        self.hours.retain(|(_, number), _| *number > first);
        HourChanges { written, removed }
    }

    fn written(&mut self, key: &HourKey, revision: Option<Revision>) {
        if let Some(stored) = self.hours.get_mut(key) {
            stored.revision = revision;
        }
    }

    fn unwritten(&mut self, key: &HourKey) {
        if let Some(stored) = self.hours.get_mut(key) {
            stored.is_changed = true;
        }
    }
}

impl Coordinator {
    /// Reads what was counted before the start.
    pub(crate) async fn load_comparison(&self) -> Result<(), Error> {
        for (_, hour) in self.documents::<CountedHour>(Collection::Shadow).await? {
            self.shadow.lock().hours.load(hour);
        }
        Ok(())
    }

    /// Writes the hours whose counts changed since the last call, and removes those that are too old.
    pub async fn save_comparison(&self) {
        let HourChanges { written, removed } = self.shadow.lock().hours.changes(self.now());
        for (key, expected, hour) in written {
            match self.put_document(Collection::Shadow, &document_key(&key), expected, Some(&hour)).await {
                Ok(PutOutcome::Written(revision)) => self.shadow.lock().hours.written(&key, Some(revision)),
                // A former leader wrote last: what this one has counted replaces it with the next call.
                Ok(PutOutcome::Lost(found)) => {
                    let mut shadow = self.shadow.lock();
                    shadow.hours.written(&key, found.map(|found| found.revision));
                    shadow.hours.unwritten(&key);
                }
                Err(error) => {
                    warn!(product.id = %key.0, %error, "Could not store the comparison of product `{}`, retrying", key.0);
                    self.shadow.lock().hours.unwritten(&key);
                }
            }
        }
        for (key, revision) in removed {
            let expected = Expected::At(revision);
            let removed =
                self.put_document::<CountedHour>(Collection::Shadow, &document_key(&key), expected, None).await;
            if let Err(error) = removed {
                warn!(product.id = %key.0, %error, "Could not remove an old comparison of product `{}`", key.0);
            }
        }
    }
}

fn document_key((product, number): &HourKey) -> String {
    format!("{product}:{number}")
}

fn number_of(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(i64::try_from(HOUR.as_millis()).unwrap_or(i64::MAX))
}

fn start_of(number: i64) -> Timestamp {
    Timestamp::from_millis(number * i64::try_from(HOUR.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags_are_summed_up_by_class() {
        let mut lag = LagClasses::default();
        assert_eq!(lag.quantiles(), None);

        for _ in 0..98 {
            lag.record(Duration::from_millis(2));
        }
        lag.record(Duration::from_millis(70));
        lag.record(Duration::from_secs(9));
        let mut twice = lag.clone();
        twice.add(&lag);

        assert_eq!(lag.quantiles(), Some(ShadowLag { p50_ms: 2, p99_ms: 100, max_ms: 9_000 }));
        assert_eq!(twice.quantiles(), lag.quantiles());
    }

    // [I14]
    #[test]
    fn only_changed_hours_are_written_and_old_ones_removed() {
        let (product, start) = (ProductId::default_product(), Timestamp::from_millis(1_000_000_000));
        let mut hours = ShadowHours::default();

        hours.of(&product, start).counts.same += 1;
        let first = hours.changes(start).written;
        hours.written(&first[0].0, Some(Revision(1)));
        let none = hours.changes(start).written;
        let week_later = start.after(HOUR * 168);
        let HourChanges { written: idle, removed: unremoved } = hours.changes(week_later);
        hours.of(&product, week_later).counts.same += 1;
        let HourChanges { written: next, removed } = hours.changes(week_later);

        assert_eq!((first.len(), none.len(), idle.len(), next.len()), (1, 0, 0, 1));
        assert_eq!((unremoved, removed), (vec![], vec![(first[0].0.clone(), Revision(1))]));
        assert_eq!(hours.recent(week_later).count(), 1);
    }
}

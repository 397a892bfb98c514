//! What the store holds and cannot read: passed over, kept as it is, and listed for people.

use std::collections::BTreeMap;
use std::fmt::Display;

use domain::UnreadableDocument;
use parking_lot::Mutex;
use tracing::error;

/// The table of jobs, as alerts name it.
pub(crate) const JOBS: &str = "fleet_jobs";

/// Entries that are listed; one that comes later is only logged.
const LISTED_MAX: usize = 1_000;

/// What could not be read since the store was opened. It is known by having been read, so that it costs no look of its own.
#[derive(Debug, Default)]
pub(crate) struct Quarantine(Mutex<BTreeMap<(&'static str, String), String>>);

impl Quarantine {
    /// Notes what cannot be read; logged once.
    pub(crate) fn add(&self, collection: &'static str, key: &str, why: &dyn Display) {
        let mut known = self.0.lock();
        let place = (collection, key.to_owned());
        if known.contains_key(&place) || known.len() >= LISTED_MAX {
            return;
        }
        error!("{collection} `{key}` cannot be read and is passed over: {why}");
        known.insert(place, why.to_string());
    }

    /// Forgets what was read after all, or is gone.
    pub(crate) fn remove(&self, collection: &'static str, key: &dyn Display) {
        let mut known = self.0.lock();
        if !known.is_empty() {
            known.remove(&(collection, key.to_string()));
        }
    }

    pub(crate) fn list(&self) -> Vec<UnreadableDocument> {
        let known = self.0.lock();
        let entry = |((collection, key), why): (&(&'static str, String), &String)| UnreadableDocument {
            collection,
            key: key.clone(),
            why: why.clone(),
        };
        known.iter().map(entry).collect()
    }
}

//! Entries that the store cannot read: skipped, kept unchanged, and listed for the operator.

use std::collections::BTreeMap;
use std::fmt::Display;

use domain::UnreadableDocument;
use parking_lot::Mutex;
use tracing::error;

/// The jobs table, as alerts name it.
pub(crate) const JOBS: &str = "fleet_jobs";

/// Maximum number of listed entries; further ones are only logged.
const LISTED_MAX: usize = 1_000;

/// The entries that could not be read since the store was opened. Normal reads discover them, so detection costs no
/// extra query.
#[derive(Debug, Default)]
pub(crate) struct Quarantine(Mutex<BTreeMap<(&'static str, String), String>>);

impl Quarantine {
    /// Adds an unreadable entry and logs it once.
    pub(crate) fn add(&self, collection: &'static str, key: &str, why: &dyn Display) {
        let mut known = self.0.lock();
        let place = (collection, key.to_owned());
        if known.contains_key(&place) || known.len() >= LISTED_MAX {
            return;
        }
        error!("{collection} `{key}` is unreadable and was skipped: {why}");
        known.insert(place, why.to_string());
    }

    /// Removes an entry that became readable or was deleted.
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

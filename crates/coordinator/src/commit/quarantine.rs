//! Unreadable stored documents: skipped, kept verbatim, and listed until an operator repairs or removes them [I9].

use std::collections::BTreeMap;

use domain::{Collection, Revision, StoreError, Timestamp};
use parking_lot::Mutex;
use protocol::{Alert, AlertCode};
use tracing::error;

use crate::coordinator::Coordinator;
use crate::read::alerts::{about, alert};

/// Limit for the documents that are listed.
const LISTED_MAX: usize = 100;

/// Unreadable documents.
#[derive(Default)]
pub(crate) struct Quarantine(Mutex<BTreeMap<(Collection, String), Entry>>);

struct Entry {
    revision: Revision,
    since: Timestamp,
    why: String,
}

impl Quarantine {
    /// Records an unreadable document; logs it once.
    pub(crate) fn add(&self, collection: Collection, key: &str, revision: Revision, why: &StoreError, now: Timestamp) {
        let mut known = self.0.lock();
        let entry = Entry { revision, since: now, why: why.to_string() };
        if known.insert((collection, key.to_owned()), entry).is_none() {
            error!("Skipped unreadable {} `{key}`: {why}", collection.name());
        }
    }

    /// Removes a document that was written again.
    pub(crate) fn remove(&self, collection: Collection, key: &str) {
        let mut known = self.0.lock();
        if !known.is_empty() {
            known.remove(&(collection, key.to_owned()));
        }
    }

    /// The unreadable keys of a collection, with their revisions.
    pub(crate) fn of(&self, wanted: Collection) -> Vec<(String, Revision)> {
        let known = self.0.lock();
        let of_collection = known.iter().filter(|((collection, _), _)| *collection == wanted);
        of_collection.map(|((_, key), entry)| (key.clone(), entry.revision)).collect()
    }
}

impl Coordinator {
    pub(crate) fn unreadable_alerts(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        for ((collection, key), entry) in self.quarantine.0.lock().iter().take(LISTED_MAX) {
            alerts.push(unreadable(collection.name(), key, &entry.why, entry.since));
        }
        for found in self.ports.jobs.unreadable().into_iter().take(LISTED_MAX) {
            alerts.push(unreadable(found.collection, &found.key, &found.why, self.started_at));
        }
        alerts
    }
}

fn unreadable(collection: &str, key: &str, why: &str, since: Timestamp) -> Alert {
    let message = format!(
        "{collection} `{key}` is unreadable and was skipped: remove or repair it, see docs/how-to/troubleshooting.md ({why})"
    );
    about(alert(AlertCode::UnreadableDocument, message, since, None), &format!("{collection}/{key}"))
}

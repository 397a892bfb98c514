//! The items that became jobs: one document for each.

use domain::{JobId, ProductId, Revision, Timestamp, TrackerItem, TrackerName};
use foldhash::HashMap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The version of the documents.
const VERSION: u16 = 1;

/// Items in memory. Beyond it the oldest ones whose status is final are read from the store when they are delivered again.
const ITEMS_MAX: usize = 20_000;

/// An item and its job, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemRecord {
    pub(crate) v: u16,
    pub(crate) item: TrackerItem,
    pub(crate) title: String,
    pub(crate) product_id: ProductId,
    pub(crate) job_id: JobId,
    /// Digest of the text that was last delivered; empty when it is unknown.
    pub(crate) digest: String,
    pub(crate) created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) changed_at: Option<Timestamp>,
    /// The final status of the job was shown.
    #[serde(default)]
    pub(crate) is_settled: bool,
}

impl ItemRecord {
    pub(crate) fn new(
        item: TrackerItem,
        title: String,
        digest: String,
        job: (JobId, ProductId),
        at: Timestamp,
    ) -> Self {
        let (job_id, product_id) = job;
        Self {
            v: VERSION,
            item,
            title,
            product_id,
            job_id,
            digest,
            created_at: at,
            changed_at: None,
            is_settled: false,
        }
    }

    /// The key of the document.
    pub(crate) fn key(&self) -> String {
        document_key(&self.item.source, &self.item.key)
    }
}

/// An item in memory.
#[derive(Debug, Clone)]
pub(crate) struct ItemEntry {
    pub(crate) record: ItemRecord,
    pub(crate) revision: Revision,
    /// The status that the tracker shows, since the start.
    pub(crate) shown: Option<String>,
    pub(crate) shown_at: Option<Timestamp>,
    /// When it was last sent, on the monotonic clock.
    pub(crate) sent_at: Option<std::time::Duration>,
    /// When it was last tried, on the monotonic clock.
    pub(crate) tried_at: Option<std::time::Duration>,
    pub(crate) error: Option<String>,
}

/// The items by job.
#[derive(Default)]
pub(crate) struct ItemBook {
    entries: HashMap<JobId, ItemEntry>,
    jobs: HashMap<String, JobId>,
}

impl ItemBook {
    pub(crate) fn of_job(&self, job: JobId) -> Option<&ItemEntry> {
        self.entries.get(&job)
    }

    pub(crate) fn of_job_mut(&mut self, job: JobId) -> Option<&mut ItemEntry> {
        self.entries.get_mut(&job)
    }

    pub(crate) fn of_key(&self, key: &str) -> Option<&ItemEntry> {
        self.entries.get(self.jobs.get(key)?)
    }

    /// Keeps a record as stored. What is known about its status stays.
    pub(crate) fn keep(&mut self, record: ItemRecord, revision: Revision) {
        self.jobs.insert(record.key(), record.job_id);
        match self.entries.get_mut(&record.job_id) {
            Some(entry) if entry.revision > revision => {}
            Some(entry) => (entry.record, entry.revision) = (record, revision),
            None => {
                let id = record.job_id;
                let entry = ItemEntry {
                    record,
                    revision,
                    shown: None,
                    shown_at: None,
                    sent_at: None,
                    tried_at: None,
                    error: None,
                };
                self.entries.insert(id, entry);
            }
        }
        if self.entries.len() > ITEMS_MAX {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let settled = self.entries.values().filter(|entry| entry.record.is_settled);
        let oldest = settled.min_by_key(|entry| entry.record.created_at).map(|entry| entry.record.job_id);
        if let Some(entry) = oldest.and_then(|oldest| self.entries.remove(&oldest)) {
            self.jobs.remove(&entry.record.key());
        }
    }

    /// Items in the order in which they are tried: those that have waited the longest first. One that always fails
    /// keeps no other waiting, although its failure pauses the tracker.
    pub(crate) fn in_order(&self, mut jobs: Vec<JobId>) -> Vec<JobId> {
        jobs.sort_by_key(|job| (self.of_job(*job).and_then(|entry| entry.tried_at), *job));
        jobs
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &ItemEntry> {
        self.entries.values()
    }
}

/// The key of an item's document: stores allow fewer characters in it than trackers do.
pub(crate) fn document_key(source: &TrackerName, key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    let digest: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{source}:{digest}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // [T6]
    #[test]
    fn an_item_that_was_just_tried_comes_last() {
        let mut book = ItemBook::default();
        let job = |n: u8| JobId::from_bytes([n; 16]);
        for n in 1..=3 {
            let item = TrackerItem { source: "github".parse().unwrap(), key: format!("acme/notes#{n}"), url: None };
            let product = ProductId::default_product();
            let at = Timestamp::from_millis(0);
            book.keep(ItemRecord::new(item, String::new(), String::new(), (job(n), product), at), Revision(1));
        }
        book.of_job_mut(job(1)).unwrap().tried_at = Some(Duration::from_secs(2));
        book.of_job_mut(job(2)).unwrap().tried_at = Some(Duration::from_secs(1));

        assert_eq!(book.in_order(vec![job(1), job(2), job(3)]), [job(3), job(2), job(1)]);
    }
}

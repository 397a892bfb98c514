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
                let entry = ItemEntry { record, revision, shown: None, shown_at: None, sent_at: None, error: None };
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

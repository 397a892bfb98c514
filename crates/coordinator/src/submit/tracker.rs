//! The tracker bridge: items of trackers become jobs, and the status of the jobs is shown at the items [T6].
//!
//! The job's id follows from tracker and key, so that an item is one job, however often it is delivered. The status goes
//! one way, after the commit; it is sent again until the tracker has it.

mod book;
mod deliveries;
mod echo;
mod ingest;
mod issues;
mod manifest;
mod rejected;
mod status;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::{ItemTracker, JobId, ProductId, ProfileRef, RepoName, Timestamp, TrackerName};
use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::coordinator::Coordinator;

use book::ItemBook;
use deliveries::DeliveryLog;
use rejected::RejectedItems;

pub use ingest::{TrackerDelivery, TrackerEvent};
pub use issues::{IssueEvent, IssueRules};

/// A configured tracker.
#[derive(Clone, Default)]
pub struct TrackerSource {
    /// The product of its jobs; the default product when absent.
    pub product: Option<ProductId>,
    /// The repository of its jobs, unless the item names one.
    pub repo: Option<RepoName>,
    /// The profile of its jobs.
    pub profile: Option<ProfileRef>,
    /// Which issues become jobs, for a tracker with issues.
    pub issues: Option<IssueRules>,
    /// Where the status of its jobs is shown.
    pub status: Option<Arc<dyn ItemTracker>>,
}

/// The state of the bridge.
#[derive(Default)]
pub(crate) struct TrackerBridge {
    sources: OnceLock<BTreeMap<TrackerName, TrackerSource>>,
    book: Mutex<ItemBook>,
    deliveries: Mutex<DeliveryLog>,
    rejected: Mutex<RejectedItems>,
    /// Jobs whose status may have to be shown, and when, on the monotonic clock.
    pending: Mutex<HashMap<JobId, Duration>>,
    /// The state of each tracker since the start.
    health: Mutex<BTreeMap<TrackerName, SourceHealth>>,
    bell: Notify,
}

/// The state of a tracker since the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceHealth {
    pub(crate) deliveries: u64,
    pub(crate) last_delivery: Option<Timestamp>,
    /// Failed attempts in a row.
    pub(crate) failures: u32,
    pub(crate) failing_since: Option<Timestamp>,
    pub(crate) error: Option<String>,
    /// Nothing is sent before this time on the monotonic clock.
    pub(crate) next_at: Duration,
    /// Shown statuses and failed attempts since the start.
    pub(crate) shown: u64,
    pub(crate) failed: u64,
}

impl TrackerBridge {
    /// The status of a job may have changed.
    pub(crate) fn note(&self, job: JobId) {
        self.pending.lock().entry(job).or_default();
        self.bell.notify_one();
    }

    pub(crate) fn source(&self, name: &TrackerName) -> Option<&TrackerSource> {
        self.sources.get()?.get(name)
    }
}

impl Coordinator {
    /// Sets the trackers, once, before [`Coordinator::run`].
    pub fn set_trackers(&self, sources: BTreeMap<TrackerName, TrackerSource>) {
        // Another set would be ignored: the first one is in use.
        let _ = self.tracker.sources.set(sources);
    }
}

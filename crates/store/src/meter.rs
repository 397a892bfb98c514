//! Operation counters, so that "idle costs nothing" is a number [I14].

use std::sync::atomic::{AtomicU64, Ordering};

/// The operations since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Operations {
    /// Jobs read by id.
    pub job_reads: u64,
    /// Pages of open jobs, of overdue jobs and of dependents.
    pub sweep_reads: u64,
    /// Reads of bodies, lists, events, runs and counts.
    pub history_reads: u64,
    /// Reads of single documents and of whole collections.
    pub document_reads: u64,
    /// Committed transactions: each is one flush.
    pub transactions: u64,
    /// Requested job changes.
    pub job_units: u64,
    /// Requested document changes.
    pub document_units: u64,
    /// Changes that failed their compare-and-set.
    pub stale_units: u64,
    /// Events written.
    pub events: u64,
    /// Steps of the search index: each reads once, and writes once if there was something to add.
    pub index_steps: u64,
    /// Confirmations of the leadership, a constant number per hour: not part of the total.
    pub leadership_checks: u64,
}

impl Operations {
    /// The number of database accesses: every read and every transaction.
    pub fn total(&self) -> u64 {
        self.job_reads
            + self.sweep_reads
            + self.history_reads
            + self.document_reads
            + self.transactions
            + self.index_steps
    }

    /// Each counter with its name, for metrics.
    pub fn by_kind(&self) -> [(&'static str, u64); 11] {
        [
            ("job_reads", self.job_reads),
            ("sweep_reads", self.sweep_reads),
            ("history_reads", self.history_reads),
            ("document_reads", self.document_reads),
            ("transactions", self.transactions),
            ("job_units", self.job_units),
            ("document_units", self.document_units),
            ("stale_units", self.stale_units),
            ("events", self.events),
            ("index_steps", self.index_steps),
            ("leadership_checks", self.leadership_checks),
        ]
    }
}

/// The counters behind [`Operations`].
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) job_reads: Counter,
    pub(crate) sweep_reads: Counter,
    pub(crate) history_reads: Counter,
    pub(crate) document_reads: Counter,
    pub(crate) transactions: Counter,
    pub(crate) job_units: Counter,
    pub(crate) document_units: Counter,
    pub(crate) stale_units: Counter,
    pub(crate) events: Counter,
    pub(crate) index_steps: Counter,
    pub(crate) leadership_checks: Counter,
}

impl Meter {
    pub(crate) fn operations(&self) -> Operations {
        Operations {
            job_reads: self.job_reads.count(),
            sweep_reads: self.sweep_reads.count(),
            history_reads: self.history_reads.count(),
            document_reads: self.document_reads.count(),
            transactions: self.transactions.count(),
            job_units: self.job_units.count(),
            document_units: self.document_units.count(),
            stale_units: self.stale_units.count(),
            events: self.events.count(),
            index_steps: self.index_steps.count(),
            leadership_checks: self.leadership_checks.count(),
        }
    }
}

/// A monotonic counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

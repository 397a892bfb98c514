//! What the store is used for: every read and write is counted under the purpose of the task that asks [D4].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use domain::{
    Body, Collection, Commit, CommitError, Cursor, Expected, FleetStore, IndexProgress, Job, JobFilter, JobHistory,
    JobId, JobStore, Page, Position, Revision, Run, Scope, StageName, StoreError, StoredEvent, Summary,
    UnreadableDocument, Versioned,
};
use protocol::StoreOperationCounts;
use serde_json::Value;

use crate::coordinator::Ports;

/// Why a task uses the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Loads the state when the coordinator starts.
    Start,
    /// Accepts new jobs.
    Submit,
    /// Offers jobs to factories.
    Dispatch,
    /// Answers factories: grants, starts, reports, releases.
    Work,
    /// Carries out what people and programs ask for.
    Change,
    /// Answers people and programs who read.
    Query,
    /// Sends events to those who follow them.
    Stream,
    /// Acts on deadlines: leases that expire, offers that are not accepted.
    Deadline,
    /// Compares memory with the store and repairs what was missed.
    Sweep,
    /// Adds jobs to the search index.
    SearchIndex,
    /// Has factories poll pull requests.
    PullRequests,
    /// Keeps the ledgers of budgets.
    Budgets,
    /// Shows the status of jobs at the items of trackers.
    Tracker,
    /// Sends webhooks.
    Webhooks,
    /// Removes artifacts after their retention time.
    Artifacts,
    /// Checks that the store can be written.
    Health,
    /// A task that named none.
    Other,
}

impl Purpose {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 17] = [
        Self::Start,
        Self::Submit,
        Self::Dispatch,
        Self::Work,
        Self::Change,
        Self::Query,
        Self::Stream,
        Self::Deadline,
        Self::Sweep,
        Self::SearchIndex,
        Self::PullRequests,
        Self::Budgets,
        Self::Tracker,
        Self::Webhooks,
        Self::Artifacts,
        Self::Health,
        Self::Other,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Submit => "submit",
            Self::Dispatch => "dispatch",
            Self::Work => "work",
            Self::Change => "change",
            Self::Query => "query",
            Self::Stream => "stream",
            Self::Deadline => "deadline",
            Self::Sweep => "sweep",
            Self::SearchIndex => "search_index",
            Self::PullRequests => "pull_requests",
            Self::Budgets => "budgets",
            Self::Tracker => "tracker",
            Self::Webhooks => "webhooks",
            Self::Artifacts => "artifacts",
            Self::Health => "health",
            Self::Other => "other",
        }
    }

    /// The purpose of the current task.
    pub fn current() -> Self {
        CURRENT.try_with(|purpose| *purpose).unwrap_or(Self::Other)
    }

    /// `task`, whose reads and writes count under this purpose.
    pub fn scope<F: Future>(self, task: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, task)
    }
}

tokio::task_local! {
    static CURRENT: Purpose;
}

/// Counts reads and writes by purpose.
#[derive(Debug, Default)]
pub(crate) struct StoreUse {
    counts: [Count; Purpose::ALL.len()],
}

#[derive(Debug, Default)]
struct Count {
    reads: AtomicU64,
    writes: AtomicU64,
}

impl StoreUse {
    /// The purposes that used the store since the start.
    pub(crate) fn by_purpose(&self) -> BTreeMap<String, StoreOperationCounts> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counted = Purpose::ALL.into_iter().zip(&self.counts);
        let counted = counted.map(|(purpose, count)| {
            (purpose.name().to_owned(), StoreOperationCounts { read: read(&count.reads), write: read(&count.writes) })
        });
        counted.filter(|(_, access)| access.read + access.write > 0).collect()
    }

    fn read(&self) {
        self.of_current().reads.fetch_add(1, Ordering::Relaxed);
    }

    fn write(&self, records: usize) {
        self.of_current().writes.fetch_add(records as u64, Ordering::Relaxed);
    }

    fn of_current(&self) -> &Count {
        &self.counts[Purpose::current() as usize]
    }
}

/// The same ports, whose store operations are counted.
pub(crate) fn counted(ports: Ports) -> (Ports, Arc<StoreUse>) {
    let used = Arc::new(StoreUse::default());
    let jobs = Arc::new(CountedJobs { inner: ports.jobs, used: Arc::clone(&used) });
    let history = Arc::new(CountedHistory { inner: ports.history, used: Arc::clone(&used) });
    let fleet = Arc::new(CountedDocuments { inner: ports.fleet, used: Arc::clone(&used) });
    (Ports { jobs, history, fleet, ..ports }, used)
}

struct CountedJobs {
    inner: Arc<dyn JobStore>,
    used: Arc<StoreUse>,
}

#[async_trait]
impl JobStore for CountedJobs {
    async fn job(&self, id: JobId) -> Result<Option<Versioned<Job>>, StoreError> {
        self.used.read();
        self.inner.job(id).await
    }

    async fn commit(&self, units: Vec<Commit>) -> Vec<Result<Revision, CommitError>> {
        self.used.write(units.len());
        self.inner.commit(units).await
    }

    async fn open(&self, after: Option<JobId>, limit: u16) -> Result<Vec<Versioned<Job>>, StoreError> {
        self.used.read();
        self.inner.open(after, limit).await
    }

    async fn dependents(&self, id: JobId) -> Result<Vec<JobId>, StoreError> {
        self.used.read();
        self.inner.dependents(id).await
    }

    async fn children(&self, parent: JobId) -> Result<Vec<(JobId, StageName)>, StoreError> {
        self.used.read();
        self.inner.children(parent).await
    }

    async fn tree(&self, root: JobId) -> Result<Vec<Versioned<Job>>, StoreError> {
        self.used.read();
        self.inner.tree(root).await
    }

    /// Waits in memory: not an operation.
    async fn changed(&self, after: Position) -> Result<Position, StoreError> {
        self.inner.changed(after).await
    }

    fn unreadable(&self) -> Vec<UnreadableDocument> {
        self.inner.unreadable()
    }
}

struct CountedHistory {
    inner: Arc<dyn JobHistory>,
    used: Arc<StoreUse>,
}

#[async_trait]
impl JobHistory for CountedHistory {
    async fn body(&self, id: JobId) -> Result<Option<Body>, StoreError> {
        self.used.read();
        self.inner.body(id).await
    }

    async fn jobs(&self, filter: &JobFilter, after: Option<Cursor>, limit: u16) -> Result<Page<Summary>, StoreError> {
        self.used.read();
        self.inner.jobs(filter, after, limit).await
    }

    async fn events(&self, scope: &Scope, after: Position, limit: u16) -> Result<Vec<StoredEvent>, StoreError> {
        self.used.read();
        self.inner.events(scope, after, limit).await
    }

    async fn runs(&self, id: JobId, after: u32, limit: u16) -> Result<Vec<Run>, StoreError> {
        self.used.read();
        self.inner.runs(id, after, limit).await
    }

    async fn census(&self) -> Result<Vec<(domain::ProductId, StageName, u64)>, StoreError> {
        self.used.read();
        self.inner.census().await
    }

    async fn index_jobs(&self) -> Result<IndexProgress, StoreError> {
        let progress = self.inner.index_jobs().await;
        if !matches!(progress, Ok(IndexProgress::KeptByWrites)) {
            self.used.read();
        }
        progress
    }

    fn operations(&self) -> Vec<(&'static str, u64)> {
        self.inner.operations()
    }
}

struct CountedDocuments {
    inner: Arc<dyn FleetStore>,
    used: Arc<StoreUse>,
}

#[async_trait]
impl FleetStore for CountedDocuments {
    async fn document(&self, collection: Collection, key: &str) -> Result<Option<Versioned<Value>>, StoreError> {
        self.used.read();
        self.inner.document(collection, key).await
    }

    async fn put(
        &self,
        collection: Collection,
        key: &str,
        expected: Expected,
        document: Option<Value>,
    ) -> Result<Revision, CommitError> {
        self.used.write(1);
        self.inner.put(collection, key, expected, document).await
    }

    async fn documents(&self, collection: Collection) -> Result<Vec<(String, Versioned<Value>)>, StoreError> {
        self.used.read();
        self.inner.documents(collection).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_has_a_counter_of_its_own() {
        for (place, purpose) in Purpose::ALL.into_iter().enumerate() {
            assert_eq!(purpose as usize, place, "{}", purpose.name());
        }
    }
}

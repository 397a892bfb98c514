//! Durable store of jobs.

use async_trait::async_trait;

use crate::event::{JobEvent, StoredEvent};
use crate::ids::{JobId, Position, Revision};
use crate::job::{Job, Versioned};
use crate::job_columns::JobColumns;
use crate::job_search::JobSearch;
use crate::names::ProductId;
use crate::run::Run;
use crate::spec::Priority;
use crate::stage::StageName;

/// Durable store of jobs. Adapters compare revisions and store bytes; they never decide whether a transition is
/// allowed.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// The job as last committed, or `None` if it does not exist. Never older than an acknowledged commit: refusals are
    /// decided on it.
    async fn job(&self, id: JobId) -> Result<Option<Versioned<Job>>, StoreError>;
    /// Writes each unit atomically and returns the results in order, after the flush. Units are independent: a rejected
    /// one does not fail the others.
    async fn commit(&self, units: Vec<Commit>) -> Vec<Result<Revision, CommitError>>;
    /// Non-terminal jobs in order of id, to rebuild in-memory state; empty at the end. An unreadable job is reported
    /// and skipped.
    async fn open(&self, after: Option<JobId>, limit: u16) -> Result<Vec<Versioned<Job>>, StoreError>;
    /// Jobs that depend on `id`.
    async fn dependents(&self, id: JobId) -> Result<Vec<JobId>, StoreError>;
    /// Waits for a commit after `after` and returns the known end of the log. Returns at once if the end is already
    /// past `after`; it is known from the moment the store is opened. Notifications may be lost; the sweep covers that.
    async fn changed(&self, after: Position) -> Result<Position, StoreError>;
    /// Unreadable jobs that were skipped since the store was opened. Does not query the store.
    fn unreadable(&self) -> Vec<UnreadableDocument> {
        Vec::new()
    }
}

/// An unreadable stored document. It is kept until an operator removes or repairs it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreadableDocument {
    /// The table or collection.
    pub collection: &'static str,
    /// Its key there.
    pub key: String,
    /// The error.
    pub why: String,
}

/// Read model of jobs. Not used on the dispatch path.
#[async_trait]
pub trait JobHistory: Send + Sync {
    /// The submitted manifest, byte for byte.
    async fn body(&self, id: JobId) -> Result<Option<Body>, StoreError>;
    /// Jobs, newest first. A page examines a bounded number of jobs: when few of those that an index finds match, it may
    /// be short, even empty, and not the last.
    async fn jobs(&self, filter: &JobFilter, after: Option<Cursor>, limit: u16) -> Result<Page<Summary>, StoreError>;
    /// Events after a position: in commit order within a job, and across jobs if the store has a total order. Positions
    /// never change, so that a reader can resume.
    async fn events(&self, scope: &Scope, after: Position, limit: u16) -> Result<Vec<StoredEvent>, StoreError>;
    /// At most `limit` ended runs after number `after`.
    async fn runs(&self, id: JobId, after: u32, limit: u16) -> Result<Vec<Run>, StoreError>;
    /// Number of jobs by product and stage; counted on request if the store keeps no counters.
    async fn census(&self) -> Result<Vec<(ProductId, StageName, u64)>, StoreError>;
    /// Adds a bounded number of jobs to the search index, those that changed first. Lists are exact before it too: they
    /// read the jobs that it lacks. A store whose writes keep its indexes has nothing to do.
    async fn index_jobs(&self) -> Result<IndexProgress, StoreError> {
        Ok(IndexProgress::KeptByWrites)
    }
    /// Number of store operations since it was opened, by kind: shows that an idle fleet costs nothing [I14].
    fn operations(&self) -> Vec<(&'static str, u64)>;
}

/// What is left for the search index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexProgress {
    /// The store's writes keep the index.
    KeptByWrites,
    /// Every job is in the index, as of this position of the log.
    Complete(Position),
    /// More jobs are waiting.
    Behind,
}

/// A change of one job: the document with its revision and its events, written atomically.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// The precondition of the write.
    pub expected: Expected,
    /// The new state of the job.
    pub job: Job,
    /// The manifest; only with the first write.
    pub body: Option<Body>,
    /// The columns.
    pub facts: JobColumns,
    /// New events.
    pub events: Vec<JobEvent>,
    /// Runs that ended.
    pub runs: Vec<Run>,
}

/// The precondition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The document does not exist.
    Absent,
    /// The document has this revision.
    At(Revision),
}

impl Expected {
    /// The revision after the write.
    pub fn next(self) -> Revision {
        match self {
            Self::Absent => Revision(1),
            Self::At(revision) => revision.next(),
        }
    }
}

/// A submitted manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body(pub std::sync::Arc<str>);

/// A job in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The job.
    pub job: Job,
    /// Its revision.
    pub revision: Revision,
}

/// Filter of a job list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Only these products; all when empty.
    pub products: Vec<ProductId>,
    /// Only these stages; all when empty.
    pub stages: Vec<StageName>,
    /// Only this priority.
    pub priority: Option<Priority>,
    /// Only this repository.
    pub repo: Option<crate::names::RepoName>,
    /// What no column has.
    pub search: JobSearch,
}

/// The events that a stream contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All events.
    Fleet,
    /// Events of some products.
    Products(Vec<ProductId>),
    /// Events of one job.
    Job(JobId),
}

impl Scope {
    /// Whether the stream contains an event.
    pub fn covers(&self, event: &StoredEvent) -> bool {
        match self {
            Self::Fleet => true,
            Self::Products(products) => products.contains(&event.product),
            Self::Job(job) => event.job == *job,
        }
    }
}

/// End of a page, to request the next one. Opaque to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub String);

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or is overloaded. Retryable.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The disk is full: nothing was written. Retryable once there is space.
    #[error("no space left: {0}")]
    DiskFull(String),
    /// The stored data cannot be read.
    #[error("the store has an unreadable record: {0}")]
    Corrupt(String),
    /// The cursor was not issued by this store.
    #[error("the cursor is not valid: start again from the first page")]
    BadCursor,
}

/// Why a unit was not committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Conflict: the revision is not the expected one. Read and decide again.
    #[error("conflict: another writer changed it first")]
    Stale,
    /// The outcome is unknown: read the job before the next write (row 32).
    #[error("the outcome of the write is unknown")]
    Unknown,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

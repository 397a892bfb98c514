//! Durable memory of jobs.

use async_trait::async_trait;

use crate::event::{JobEvent, StoredEvent};
use crate::ids::{JobId, Position, Revision};
use crate::job::{Job, Versioned};
use crate::job_columns::JobColumns;
use crate::names::ProductId;
use crate::run::Run;
use crate::spec::Priority;
use crate::stage::StageName;

/// Durable memory of jobs. Adapters compare revisions and store bytes; they never look at a stage to decide whether a
/// change is allowed.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// The job as last committed, or `None` if it was never submitted. Never older than a commit that was acknowledged:
    /// refusals are decided on it.
    async fn job(&self, id: JobId) -> Result<Option<Versioned<Job>>, StoreError>;
    /// Writes each unit whole or not at all, and answers in the order of the units, after the flush. Units are
    /// independent: a refused one never fails its neighbours.
    async fn commit(&self, units: Vec<Commit>) -> Vec<Result<Revision, CommitError>>;
    /// Non-terminal jobs in order of id, for rebuilding what is kept in memory; empty at the end. One that cannot be
    /// read is reported and passed over.
    async fn open(&self, after: Option<JobId>, limit: u16) -> Result<Vec<Versioned<Job>>, StoreError>;
    /// Jobs that name `id` among their dependencies.
    async fn dependents(&self, id: JobId) -> Result<Vec<JobId>, StoreError>;
    /// Resolves when something was committed after `after`, with how far the log is known to reach. Whoever knows of more
    /// than `after` answers at the first poll, and where the log ended when the store was opened is known. May lie; the
    /// sweep does not.
    async fn changed(&self, after: Position) -> Result<Position, StoreError>;
    /// Jobs that were found unreadable since the store was opened, and passed over. Nothing is asked of the store.
    fn unreadable(&self) -> Vec<UnreadableDocument> {
        Vec::new()
    }
}

/// A stored document that cannot be read. It is kept as it is until an operator removes or repairs it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreadableDocument {
    /// The table or collection.
    pub collection: &'static str,
    /// Its key there.
    pub key: String,
    /// Why it cannot be read.
    pub why: String,
}

/// What people and programs read about jobs. Never on the path of a dispatch.
#[async_trait]
pub trait JobHistory: Send + Sync {
    /// The manifest as it was submitted, byte for byte.
    async fn body(&self, id: JobId) -> Result<Option<Body>, StoreError>;
    /// Jobs, newest first.
    async fn jobs(&self, filter: &JobFilter, after: Option<Cursor>, limit: u16) -> Result<Page<Summary>, StoreError>;
    /// Events after a position: each job's in the order of its commits, and all in commit order where the store has one. A
    /// place in the log never changes, so that reading can go on from it.
    async fn events(&self, scope: &Scope, after: Position, limit: u16) -> Result<Vec<StoredEvent>, StoreError>;
    /// Runs that have ended, by their number: so many of those after `after`.
    async fn runs(&self, id: JobId, after: u32, limit: u16) -> Result<Vec<Run>, StoreError>;
    /// How many jobs each product has in each stage; counted, where the store cannot keep count.
    async fn census(&self) -> Result<Vec<(ProductId, StageName, u64)>, StoreError>;
    /// Operations on the store since it was opened, by kind: "idle costs nothing" is a number [I14].
    fn operations(&self) -> Vec<(&'static str, u64)>;
}

/// One job's change: the document under its revision, with its events, all or nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// What must be there for the write to happen.
    pub expected: Expected,
    /// The job as it will be.
    pub job: Job,
    /// The manifest; given with the first write only.
    pub body: Option<Body>,
    /// The columns.
    pub facts: JobColumns,
    /// What happened.
    pub events: Vec<JobEvent>,
    /// Runs that ended.
    pub runs: Vec<Run>,
}

/// What must be there for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Nothing: the first write.
    Absent,
    /// This revision.
    At(Revision),
}

impl Expected {
    /// The revision that the write leads to.
    pub fn next(self) -> Revision {
        match self {
            Self::Absent => Revision(1),
            Self::At(revision) => revision.next(),
        }
    }
}

/// A manifest as it was submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body(pub std::sync::Arc<str>);

/// A job as lists show it.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The job.
    pub job: Job,
    /// Its revision.
    pub revision: Revision,
}

/// Which jobs a list shows.
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
}

/// Whose events a stream shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everybody's.
    Fleet,
    /// Those of some products.
    Products(Vec<ProductId>),
    /// One job's.
    Job(JobId),
}

impl Scope {
    /// Whether it shows an event.
    pub fn covers(&self, event: &StoredEvent) -> bool {
        match self {
            Self::Fleet => true,
            Self::Products(products) => products.contains(&event.product),
            Self::Job(job) => event.job == *job,
        }
    }
}

/// Where a page ended: opaque to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub String);

/// Some of a list, and where the rest begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}

/// Why a store could not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached or is overloaded: trying again may help.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// There is no space left for a write: nothing of it is stored, and trying again helps once there is space.
    #[error("no space left: {0}")]
    DiskFull(String),
    /// What it holds cannot be read.
    #[error("the store holds something unreadable: {0}")]
    Corrupt(String),
    /// The cursor is not one that this store gave out.
    #[error("the cursor is not valid: start again from the first page")]
    BadCursor,
}

/// Why a unit was not written.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Something else is there than was expected: read again, decide again.
    #[error("somebody else was faster")]
    Stale,
    /// Nobody knows whether it was written: read again before anything else (row 32).
    #[error("it is not known whether the write happened")]
    Unknown,
    /// The store could not write it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

//! A store on a database with weak guarantees, for tests: the rehearsal for a cloud's document database.
//!
//! Two layers. [`SimulatedDatabase`] is the database: atomic within one partition, throttling, losing responses, with
//! a change feed that skips, repeats and reorders. [`SimulatedDocumentStore`] is the adapter, which uses nothing but
//! its requests:
//!
//! - A job is one partition. A commit reads the job, compares its revision, and writes it with its events in one batch
//!   under the etag that was read. A timeout is `Unknown`; only a request that is known to have failed is retried.
//! - The log is not written with the job, because no batch spans partitions. A job's events are numbered in its own
//!   partition and appended to the log later, by the next reader. The log's entries, its end and each job's progress
//!   are one partition, changed in one batch under the etag of the end: two processes cannot assign one
//!   position twice. So positions grow by one, never change, and can be resumed from. They keep each job's order and
//!   the order of one process's writes, and no more.
//! - The difference between the job and the log decides what is appended, never the feed: a skipped, repeated or
//!   reordered feed entry changes nothing. A process finds its own writes without the feed.
//! - Counts are computed by a query. A removed document stays as a tombstone, so that its revisions continue.

mod batch;
mod clock;
mod database;
mod documents;
mod faults;
mod feed;
mod history;
mod items;
mod log;
mod pending_writes;
mod retry;

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Clock, Commit, CommitError, Entropy, Expected, Job, JobId, JobStore, Position, Revision, StageName, StoreError,
    TREE_JOBS_MAX, Versioned,
};
use tokio::sync::watch;
use tracing::warn;

pub use batch::{BATCH_BYTES_MAX, BATCH_OPS_MAX, BatchError, Condition, Op};
pub use clock::HastyClock;
pub use database::{Document, Item, Key, Order, Query, RequestError, SimulatedDatabase};
pub use faults::Faults;
pub use feed::{Continuation, FeedPage, PHYSICAL_PARTITIONS};

use items::{JOBS, LAST, job, job_key};
use log::Progress;
use pending_writes::PendingWrites;
use retry::{RetryingDatabase, WriteError};

/// A store on a [`SimulatedDatabase`]. Several stores may be open on one database, as several processes are.
pub struct SimulatedDocumentStore {
    patience: RetryingDatabase,
    /// Jobs that this process wrote, or may have written, and whose events may not be in the log yet.
    touched: PendingWrites,
    progress: tokio::sync::Mutex<Progress>,
    end: watch::Sender<Position>,
}

impl SimulatedDocumentStore {
    /// Opens a store on a database. It waits on `clock` and adds jitter from `chance`. The end of the log is loaded
    /// before this returns.
    pub async fn open(
        database: Arc<SimulatedDatabase>,
        clock: Arc<dyn Clock>,
        chance: Arc<dyn Entropy>,
    ) -> Result<Self, StoreError> {
        let store = Self {
            patience: RetryingDatabase::new(database, clock, chance),
            touched: PendingWrites::default(),
            progress: tokio::sync::Mutex::default(),
            end: watch::Sender::default(),
        };
        store.load_progress().await?;
        Ok(store)
    }

    fn database(&self) -> &SimulatedDatabase {
        &self.patience.database
    }

    async fn read(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        self.patience.ask(|| self.database().read(key)).await
    }

    async fn query(&self, query: &Query) -> Result<Vec<Item>, StoreError> {
        self.patience.ask(|| self.database().query(query.clone())).await
    }

    async fn ids(&self, query: Query) -> Result<Vec<JobId>, StoreError> {
        let items = self.query(&query).await?;
        let id = |item: Item| item.key.partition.parse().map_err(|error| items::unreadable(&item.key, error));
        items.into_iter().map(id).collect()
    }

    /// The readable jobs with this value of an index, in order of id.
    async fn jobs_by(&self, name: &'static str, value: JobId, limit: usize) -> Result<Vec<Versioned<Job>>, StoreError> {
        let values = value.to_string()..=value.to_string();
        let mut jobs = Vec::new();
        for item in self.query(&Query { name, values, order: Order::Rising, limit }).await? {
            match job(&item) {
                Ok(job) => jobs.push(job),
                Err(error) => warn!(job.id = %item.key.partition, %error, "Skipped an unreadable job"),
            }
        }
        jobs.sort_by_key(|job| job.value.id());
        Ok(jobs)
    }

    async fn commit_unit(&self, unit: &Commit) -> Result<Revision, CommitError> {
        let id = unit.job.id();
        let current = match unit.expected {
            Expected::Absent => None,
            Expected::At(revision) => {
                let item = self.read(&job_key(id, "job")).await?.ok_or(CommitError::Stale)?;
                if items::number(&item, "rev")? != revision.0 {
                    return Err(CommitError::Stale);
                }
                Some(item)
            }
        };
        let ops = items::ops(unit, current.as_ref())?;
        // Noted before the request: the log gets the events even if the response is lost or the caller is cancelled.
        self.touched.note(id, unit.job.seq());
        match self.patience.write(JOBS, &id.to_string(), &ops).await {
            Ok(_) => Ok(unit.expected.next()),
            Err(WriteError::Refused { at: 0 }) => Err(CommitError::Stale),
            Err(WriteError::Refused { at }) => {
                let why = format!("`{}` of job `{id}` already exists", ops[at].id);
                Err(StoreError::Corrupt(why).into())
            }
            Err(WriteError::Unknown) => Err(CommitError::Unknown),
            Err(WriteError::Store(error)) => Err(error.into()),
        }
    }
}

#[async_trait]
impl JobStore for SimulatedDocumentStore {
    async fn job(&self, id: JobId) -> Result<Option<Versioned<Job>>, StoreError> {
        self.read(&job_key(id, "job")).await?.as_ref().map(job).transpose()
    }

    async fn commit(&self, units: Vec<Commit>) -> Vec<Result<Revision, CommitError>> {
        let mut outcomes = Vec::with_capacity(units.len());
        for unit in &units {
            outcomes.push(self.commit_unit(unit).await);
        }
        if self.touched.are_many()
            && let Err(error) = self.catch_up().await
        {
            warn!(%error, "Could not append events to the log, the next reader retries");
        }
        outcomes
    }

    async fn open(&self, after: Option<JobId>, limit: u16) -> Result<Vec<Versioned<Job>>, StoreError> {
        let from = after.map(|id| format!("{id}!")).unwrap_or_default();
        let values = from..=LAST.to_owned();
        let query = Query { name: "open", values, order: Order::Rising, limit: limit.into() };
        let mut open = Vec::new();
        for item in self.query(&query).await? {
            match job(&item) {
                Ok(job) => open.push(job),
                Err(error) => warn!(job.id = %item.key.partition, %error, "Skipped an unreadable job"),
            }
        }
        Ok(open)
    }

    async fn dependents(&self, id: JobId) -> Result<Vec<JobId>, StoreError> {
        let values = id.to_string()..=id.to_string();
        self.ids(Query { name: "dep", values, order: Order::Rising, limit: usize::MAX }).await
    }

    async fn children(&self, parent: JobId) -> Result<Vec<(JobId, StageName)>, StoreError> {
        let jobs = self.jobs_by("parent", parent, usize::MAX).await?;
        Ok(jobs.iter().map(|job| (job.value.id(), job.value.stage().name())).collect())
    }

    async fn tree(&self, root: JobId) -> Result<Vec<Versioned<Job>>, StoreError> {
        self.jobs_by("root", root, TREE_JOBS_MAX).await
    }

    async fn changed(&self, after: Position) -> Result<Position, StoreError> {
        let mut end = self.end.subscribe();
        let mut bell = self.database().bell();
        loop {
            bell.mark_unchanged();
            let known = *end.borrow_and_update();
            // A caller whose answer is already known does not wait for a request.
            let caught_up = tokio::select! {
                biased;
                caught_up = self.catch_up() => caught_up,
                () = std::future::ready(()), if known > after => return Ok(known),
            };
            let known = *end.borrow();
            if known > after {
                return Ok(known);
            }
            caught_up?;
            tokio::select! {
                rung = bell.changed() => rung.map_err(|_| gone())?,
                moved = end.changed() => moved.map_err(|_| gone())?,
            }
        }
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the database was closed".to_owned())
}

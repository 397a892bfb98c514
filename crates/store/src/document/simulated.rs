//! A store on a database that promises little, for tests: the rehearsal for a cloud's document database.
//!
//! Two layers. [`WeakDatabase`] is the simulated database: atomic within one partition, throttling, forgetful of its
//! answers, with a change feed that skips, repeats and reorders. [`Weak`] is the adapter, over nothing but that:
//!
//! - A job is one partition. A commit reads the job, compares its revision, and writes it with its events in one batch
//!   under the version that was read. A time-out is `Unknown`; only what is known not to have happened is sent again.
//! - The log is not written with the job: no batch spans partitions. Each job's events are numbered with the job, in its
//!   partition, and entered into the log later, by whoever reads it. The entries of the log, where it ends, and how far
//!   each job has been entered are one partition, changed in one batch under the version of the end: two processes cannot
//!   both give out a position. So positions grow by one, stay what they are, and can be resumed from; their order is that
//!   in which changes were found: each job's own order, and the order in which one process wrote, and no more.
//! - What has to be entered is decided by what the job has and the log has not, never by what the feed said: an entry of
//!   the feed that is skipped, repeated or out of order changes nothing. A process finds its own writes without the feed.
//! - Counts are counted. A removed document stays as a tombstone, so that its revisions go on.

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
    Clock, Commit, CommitError, Entropy, Expected, Job, JobId, JobStore, Position, Revision, StoreError, Versioned,
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

/// A store on a [`WeakDatabase`]. Several may be open on one, as processes are.
pub struct SimulatedDocumentStore {
    patience: RetryingDatabase,
    /// Jobs that this process wrote, or may have, and that may have to be entered into the log.
    touched: PendingWrites,
    progress: tokio::sync::Mutex<Progress>,
    end: watch::Sender<Position>,
}

impl SimulatedDocumentStore {
    /// A store on a database, which waits on `clock` and spreads its pauses by `chance`. It knows where the log ends
    /// before it is asked.
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
        // Before it is sent: whatever becomes of the answer, or of the caller, the log hears of it.
        self.touched.note(id, unit.job.seq());
        match self.patience.write(JOBS, &id.to_string(), &ops).await {
            Ok(_) => Ok(unit.expected.next()),
            Err(WriteError::Refused { at: 0 }) => Err(CommitError::Stale),
            Err(WriteError::Refused { at }) => {
                let why = format!("`{}` of job `{id}` is there already", ops[at].id);
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
            warn!(%error, "Could not enter events into the log, the next reader will");
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
                Err(error) => warn!(job.id = %item.key.partition, %error, "A job cannot be read and is passed over"),
            }
        }
        Ok(open)
    }

    async fn dependents(&self, id: JobId) -> Result<Vec<JobId>, StoreError> {
        let values = id.to_string()..=id.to_string();
        self.ids(Query { name: "dep", values, order: Order::Rising, limit: usize::MAX }).await
    }

    async fn changed(&self, after: Position) -> Result<Position, StoreError> {
        let mut end = self.end.subscribe();
        let mut bell = self.database().bell();
        loop {
            bell.mark_unchanged();
            let known = *end.borrow_and_update();
            // Whoever could be answered already does not wait for the database to be asked.
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
    StoreError::Unavailable("the database is gone".to_owned())
}

//! Jobs: written under the etag that this process remembers, read by their address.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Clock, Commit, CommitError, Entropy, Expected, Job, JobId, JobStore, Position, ProductId, Revision, StageName,
    StoreError, TREE_JOBS_MAX, Versioned,
};
use futures_util::stream::{self, StreamExt};
use tokio::sync::watch;
use tracing::warn;

use super::database::{Container, DocumentDatabase, Filter, Item, Order, Partition, Query};
use super::items::{self, LAST, job_key};
use super::job_cache::{JobCache, JobVersion};
use super::log::Progress;
use super::pending_writes::PendingWrites;
use super::requests::{Requests, WriteError};

/// Jobs of one commit whose requests are under way at the same time.
const COMMITS_AT_ONCE: usize = 64;

/// A store on a [`DocumentDatabase`]. Several stores may be open on one database, as several processes are.
pub struct DocumentStore {
    pub(super) requests: Requests,
    pub(super) cache: JobCache,
    /// Jobs that this process wrote, or may have written, and whose events may not be in the log yet.
    pub(super) pending: PendingWrites,
    pub(super) progress: tokio::sync::Mutex<Progress>,
    pub(super) end: watch::Sender<Position>,
}

impl DocumentStore {
    /// Opens a store on a database. It waits on `clock` and adds jitter from `chance`. The end of the log is loaded
    /// before this returns.
    pub async fn open(
        database: Arc<dyn DocumentDatabase>,
        clock: Arc<dyn Clock>,
        chance: Arc<dyn Entropy>,
    ) -> Result<Self, StoreError> {
        let store = Self {
            requests: Requests::new(database, clock, chance),
            cache: JobCache::default(),
            pending: PendingWrites::default(),
            progress: tokio::sync::Mutex::default(),
            end: watch::Sender::default(),
        };
        store.load_progress().await?;
        Ok(store)
    }

    /// Reads a job's item, wherever it is. A failed request is an error, never "no such job": at that answer a factory
    /// drops its work.
    async fn job_item(&self, id: JobId) -> Result<Option<Item>, StoreError> {
        let item = match self.cache.product(id) {
            Some(product) => self.requests.read(&job_key(&product, id, "job")).await?,
            None => self.requests.query(&jobs_with(vec![Filter::is("jobId", id.to_string())], 1)).await?.pop(),
        };
        if let Some(item) = &item {
            self.remember(id, item)?;
        }
        Ok(item)
    }

    /// The product of a job, which is a part of its address; `None` if there is no such job.
    pub(super) async fn product_of(&self, id: JobId) -> Result<Option<ProductId>, StoreError> {
        if let Some(product) = self.cache.product(id) {
            return Ok(Some(product));
        }
        self.job_item(id).await?;
        Ok(self.cache.product(id))
    }

    fn remember(&self, id: JobId, item: &Item) -> Result<(), StoreError> {
        let is_open = item.document.get("isOpen").is_some();
        let version = is_open.then(|| items::version(item)).transpose()?;
        self.cache.remember(id, &items::parsed(item, "productId")?, version);
        Ok(())
    }

    /// Decodes the jobs of items, and remembers their versions. An unreadable one is reported and skipped.
    fn readable_jobs(&self, items: &[Item]) -> Vec<Versioned<Job>> {
        let mut jobs = Vec::with_capacity(items.len());
        for item in items {
            match items::job(item).and_then(|job| self.remember(job.value.id(), item).map(|()| job)) {
                Ok(job) => jobs.push(job),
                Err(error) => warn!(job.id = %item.key.partition.last(), %error, "Skipped an unreadable job"),
            }
        }
        jobs
    }

    /// The readable jobs with this value of a field, in order of id.
    async fn jobs_by(
        &self,
        field: &'static str,
        value: JobId,
        limit: usize,
    ) -> Result<Vec<Versioned<Job>>, StoreError> {
        let items = self.requests.query(&jobs_with(vec![Filter::is(field, value.to_string())], limit)).await?;
        Ok(self.readable_jobs(&items))
    }

    /// Writes a unit under the version that this process remembers. If the database refuses it, the memory was wrong:
    /// the job is read, and its revision decides.
    async fn commit_unit(&self, unit: &Commit) -> Result<Revision, CommitError> {
        let id = unit.job.id();
        let Expected::At(revision) = unit.expected else { return self.write_unit(unit, None).await };
        match self.cache.version(id).filter(|version| version.revision == revision) {
            Some(version) => match self.write_unit(unit, Some(&version)).await {
                Err(CommitError::Stale) => self.commit_over_read(unit, revision).await,
                outcome => outcome,
            },
            None => self.commit_over_read(unit, revision).await,
        }
    }

    async fn commit_over_read(&self, unit: &Commit, revision: Revision) -> Result<Revision, CommitError> {
        let id = unit.job.id();
        let item = self.requests.read(&job_key(&unit.facts.product, id, "job")).await?.ok_or(CommitError::Stale)?;
        let version = items::version(&item)?;
        self.remember(id, &item)?;
        if version.revision != revision {
            return Err(CommitError::Stale);
        }
        self.write_unit(unit, Some(&version)).await
    }

    async fn write_unit(&self, unit: &Commit, current: Option<&JobVersion>) -> Result<Revision, CommitError> {
        let (id, product) = (unit.job.id(), &unit.facts.product);
        let (ops, seq) = items::ops(unit, current)?;
        let written = self.requests.write(Container::Jobs, &Partition::of_job(product, id), &ops).await;
        match written {
            Ok(etags) => {
                let revision = unit.expected.next();
                let etag = etags.into_iter().next().filter(|_| !unit.facts.stage.is_terminal());
                self.cache.remember(id, product, etag.map(|etag| JobVersion { revision, etag, seq }));
                Ok(revision)
            }
            Err(WriteError::Refused { at: 0 }) => {
                self.cache.forget_version(id);
                Err(CommitError::Stale)
            }
            Err(WriteError::Refused { at }) => {
                self.cache.forget_version(id);
                Err(StoreError::Corrupt(format!("`{}` of job `{id}` already exists", ops[at].id)).into())
            }
            Err(WriteError::Unknown) => {
                self.cache.forget_version(id);
                Err(CommitError::Unknown)
            }
            Err(WriteError::Store(error)) => Err(error.into()),
        }
    }

    /// Writes the units of one job in their order.
    async fn commit_in_order(&self, units: Vec<(usize, &Commit)>) -> Vec<(usize, Result<Revision, CommitError>)> {
        let mut outcomes = Vec::with_capacity(units.len());
        for (at, unit) in units {
            outcomes.push((at, self.commit_unit(unit).await));
        }
        outcomes
    }
}

/// A query for jobs in order of id.
fn jobs_with(mut filters: Vec<Filter>, limit: usize) -> Query {
    filters.push(Filter::is("type", "job"));
    let range = String::new()..=LAST.to_owned();
    Query { container: Container::Jobs, filters, order_by: "jobId", range, order: Order::Rising, limit }
}

#[async_trait]
impl JobStore for DocumentStore {
    async fn job(&self, id: JobId) -> Result<Option<Versioned<Job>>, StoreError> {
        self.job_item(id).await?.as_ref().map(items::job).transpose()
    }

    async fn commit(&self, units: Vec<Commit>) -> Vec<Result<Revision, CommitError>> {
        let pending =
            units.iter().map(|unit| Some((Partition::of_job(&unit.facts.product, unit.job.id()), unit.job.seq())));
        let mut writing = self.pending.after(pending.collect());
        let mut by_job: BTreeMap<JobId, Vec<(usize, &Commit)>> = BTreeMap::new();
        for (at, unit) in units.iter().enumerate() {
            by_job.entry(unit.job.id()).or_default().push((at, unit));
        }
        let mut requests = Vec::with_capacity(by_job.len());
        for units in by_job.into_values() {
            requests.push(self.commit_in_order(units));
        }
        let mut outcomes: Vec<_> = stream::iter(requests).buffer_unordered(COMMITS_AT_ONCE).concat().await;
        outcomes.sort_by_key(|(at, _)| *at);
        for (at, outcome) in &outcomes {
            if matches!(outcome, Err(CommitError::Stale)) {
                writing.forget(*at);
            }
        }
        drop(writing);
        if self.pending.are_many()
            && let Err(error) = self.catch_up().await
        {
            warn!(%error, "Could not append events to the log, the next reader retries");
        }
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    async fn open(&self, after: Option<JobId>, limit: u16) -> Result<Vec<Versioned<Job>>, StoreError> {
        let from = after.map(|id| format!("{id}!")).unwrap_or_default();
        let range = from..=LAST.to_owned();
        let query = Query { range, ..jobs_with(vec![Filter::is("isOpen", true)], limit.into()) };
        Ok(self.readable_jobs(&self.requests.query(&query).await?))
    }

    async fn dependents(&self, id: JobId) -> Result<Vec<JobId>, StoreError> {
        let items = self.requests.query(&jobs_with(vec![Filter::is("deps", id.to_string())], usize::MAX)).await?;
        items.iter().map(|item| items::parsed(item, "jobId")).collect()
    }

    async fn children(&self, parent: JobId) -> Result<Vec<(JobId, StageName)>, StoreError> {
        let jobs = self.jobs_by("parentId", parent, usize::MAX).await?;
        Ok(jobs.iter().map(|job| (job.value.id(), job.value.stage().name())).collect())
    }

    async fn tree(&self, root: JobId) -> Result<Vec<Versioned<Job>>, StoreError> {
        self.jobs_by("rootId", root, TREE_JOBS_MAX).await
    }

    async fn changed(&self, after: Position) -> Result<Position, StoreError> {
        let mut end = self.end.subscribe();
        let mut wakeups = self.requests.wakeups();
        loop {
            wakeups.mark_unchanged();
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
                woken = wakeups.changed() => woken.map_err(|_| gone())?,
                moved = end.changed() => moved.map_err(|_| gone())?,
            }
        }
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the database was closed".to_owned())
}

//! A store without durability: maps under one lock. For simulations, and as a reference implementation of the ports.

mod history;

use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{
    Body, Collection, Commit, CommitError, EventSeq, Expected, FleetStore, Job, JobId, JobStore, Position, Revision,
    Run, StageName, StoreError, StoredEvent, TREE_JOBS_MAX, Versioned,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

/// A store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    fleet: Mutex<Fleet>,
    end: watch::Sender<Position>,
}

#[derive(Debug, Default)]
struct Fleet {
    jobs: BTreeMap<JobId, StoredJob>,
    log: Vec<StoredEvent>,
    documents: BTreeMap<(Collection, String), Versioned<Value>>,
}

#[derive(Debug)]
struct StoredJob {
    job: Versioned<Job>,
    body: Option<Body>,
    runs: Vec<Run>,
    /// The number of the job's latest event.
    seq: EventSeq,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl JobStore for MemoryStore {
    async fn job(&self, id: JobId) -> Result<Option<Versioned<Job>>, StoreError> {
        Ok(self.fleet.lock().jobs.get(&id).map(|kept| kept.job.clone()))
    }

    async fn commit(&self, units: Vec<Commit>) -> Vec<Result<Revision, CommitError>> {
        let mut fleet = self.fleet.lock();
        let outcomes = units.into_iter().map(|unit| fleet.commit(unit)).collect();
        // Sent under the lock, so that the end never appears to move back.
        self.end.send_if_modified(|end| std::mem::replace(end, fleet.end()) != fleet.end());
        outcomes
    }

    async fn open(&self, after: Option<JobId>, limit: u16) -> Result<Vec<Versioned<Job>>, StoreError> {
        let fleet = self.fleet.lock();
        let rest = fleet.jobs.values().map(|kept| &kept.job).filter(|job| after.is_none_or(|id| job.value.id() > id));
        let open = rest.filter(|job| !job.value.stage().name().is_terminal());
        Ok(open.take(usize::from(limit)).cloned().collect())
    }

    async fn dependents(&self, id: JobId) -> Result<Vec<JobId>, StoreError> {
        let fleet = self.fleet.lock();
        let jobs = fleet.jobs.values().map(|kept| &kept.job.value);
        Ok(jobs.filter(|job| job.submission().deps.contains(&id)).map(Job::id).collect())
    }

    async fn children(&self, parent: JobId) -> Result<Vec<(JobId, StageName)>, StoreError> {
        let fleet = self.fleet.lock();
        let jobs = fleet.jobs.values().map(|kept| &kept.job.value).filter(|job| job.parent() == Some(parent));
        Ok(jobs.map(|job| (job.id(), job.stage().name())).collect())
    }

    async fn tree(&self, root: JobId) -> Result<Vec<Versioned<Job>>, StoreError> {
        let fleet = self.fleet.lock();
        let jobs = fleet.jobs.values().map(|kept| &kept.job);
        let below = jobs.filter(|job| job.value.tree().is_some_and(|place| place.root_id == root));
        Ok(below.take(TREE_JOBS_MAX).cloned().collect())
    }

    async fn changed(&self, after: Position) -> Result<Position, StoreError> {
        let mut end = self.end.subscribe();
        let moved = end.wait_for(|end| *end > after).await;
        moved.map(|end| *end).map_err(|_| StoreError::Unavailable("the store was closed".to_owned()))
    }
}

impl Fleet {
    fn end(&self) -> Position {
        Position(self.log.len() as u64)
    }

    fn commit(&mut self, unit: Commit) -> Result<Revision, CommitError> {
        let id = unit.job.id();
        let current = self.jobs.get(&id).map(|kept| kept.job.revision);
        if current != revision(unit.expected) {
            return Err(CommitError::Stale);
        }
        let (recorded, seq) = self.record(&unit)?;
        self.log.extend(recorded);
        let revision = unit.expected.next();
        let job = Versioned { value: unit.job, revision };
        match self.jobs.get_mut(&id) {
            Some(kept) => {
                kept.job = job;
                kept.runs.extend(unit.runs);
                kept.seq = seq;
            }
            None => {
                self.jobs.insert(id, StoredJob { job, body: unit.body, runs: unit.runs, seq });
            }
        }
        Ok(revision)
    }

    /// Assigns positions to the unit's events; returns them with the number of the last one. Fails if the numbers
    /// leave a gap.
    fn record(&self, unit: &Commit) -> Result<(Vec<StoredEvent>, EventSeq), StoreError> {
        let mut seq = self.jobs.get(&unit.job.id()).map_or(EventSeq(0), |kept| kept.seq);
        let mut position = self.end();
        let mut recorded = Vec::new();
        for event in &unit.events {
            if event.seq <= seq {
                return Err(StoreError::Corrupt(format!("job `{}` already has an event {}", event.job_id, event.seq)));
            }
            let json = serde_json::to_string(event)
                .map_err(|error| StoreError::Corrupt(format!("the event cannot be written: {error}")))?;
            (seq, position) = (event.seq, position.next());
            recorded.push(StoredEvent {
                position,
                json: json.into(),
                job: event.job_id,
                product: event.product_id.clone(),
                seq,
            });
        }
        Ok((recorded, seq))
    }
}

#[async_trait]
impl FleetStore for MemoryStore {
    async fn document(&self, collection: Collection, key: &str) -> Result<Option<Versioned<Value>>, StoreError> {
        Ok(self.fleet.lock().documents.get(&(collection, key.to_owned())).cloned())
    }

    async fn put(
        &self,
        collection: Collection,
        key: &str,
        expected: Expected,
        document: Option<Value>,
    ) -> Result<Revision, CommitError> {
        let mut fleet = self.fleet.lock();
        let key = (collection, key.to_owned());
        if fleet.documents.get(&key).map(|document| document.revision) != revision(expected) {
            return Err(CommitError::Stale);
        }
        let next = expected.next();
        match document {
            Some(value) => fleet.documents.insert(key, Versioned { value, revision: next }),
            None => fleet.documents.remove(&key),
        };
        Ok(next)
    }

    async fn documents(&self, collection: Collection) -> Result<Vec<(String, Versioned<Value>)>, StoreError> {
        let fleet = self.fleet.lock();
        let all = fleet.documents.iter().filter(|((its, _), _)| *its == collection);
        Ok(all.map(|((_, key), document)| (key.clone(), document.clone())).collect())
    }
}

fn revision(expected: Expected) -> Option<Revision> {
    match expected {
        Expected::Absent => None,
        Expected::At(revision) => Some(revision),
    }
}

//! A fault-injecting store in front of the real one: slow, losing answers, or down.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use clock::SeededEntropy;
use domain::{
    Collection, Commit, CommitError, Entropy, Expected, FleetStore, Job, JobId, JobStore, Position, Revision,
    StageName, StoreError, Versioned,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;

/// A store that injects faults.
pub(crate) struct FaultyStore {
    jobs: Arc<dyn JobStore>,
    documents: Arc<dyn FleetStore>,
    trouble: Arc<StoreFaults>,
}

/// The faults of the store, shared by all users of it.
pub(crate) struct StoreFaults {
    chance: SeededEntropy,
    faults: Mutex<Faults>,
    /// Commits wait here, after they have happened, while their answers are held back.
    gate: Semaphore,
    /// Commits that reached the gate.
    held: AtomicUsize,
}

/// The faults to inject.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// Every operation yields up to this many times, before and after.
    pub(crate) yields_max: u32,
    /// The share of commits that happen and return `Unknown`.
    pub(crate) answers_lost: f64,
    /// The share of commits that do not happen and return `Unknown`.
    pub(crate) commits_lost: f64,
    /// Jobs whose writes fail.
    pub(crate) unwritable: BTreeSet<JobId>,
    /// All reads and writes fail.
    pub(crate) is_down: bool,
    /// Commits happen, but their answers are held back.
    pub(crate) holds_answers: bool,
}

impl FaultyStore {
    pub(crate) fn new(jobs: Arc<dyn JobStore>, documents: Arc<dyn FleetStore>, trouble: Arc<StoreFaults>) -> Self {
        Self { jobs, documents, trouble }
    }
}

impl StoreFaults {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            chance: SeededEntropy::new(seed),
            faults: Mutex::default(),
            gate: Semaphore::new(0),
            held: AtomicUsize::new(0),
        }
    }

    /// Changes the faults.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.faults.lock());
    }

    /// Removes all faults.
    pub(crate) fn heal(&self) {
        self.set(|faults| *faults = Faults::default());
    }

    /// The number of commits whose answers were held back.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn faults(&self) -> Faults {
        self.faults.lock().clone()
    }

    fn fraction(&self) -> f64 {
        (&self.chance as &dyn Entropy).fraction()
    }

    async fn give_way(&self, max: u32) {
        if max == 0 {
            return;
        }
        let [byte] = (&self.chance as &dyn Entropy).bytes::<1>();
        for _ in 0..u32::from(byte) % (max + 1) {
            tokio::task::yield_now().await;
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.faults.lock().is_down { Err(StoreError::Unavailable("it is down".to_owned())) } else { Ok(()) }
    }
}

#[async_trait]
impl JobStore for FaultyStore {
    async fn job(&self, id: JobId) -> Result<Option<Versioned<Job>>, StoreError> {
        self.trouble.check()?;
        let yields = self.trouble.faults().yields_max;
        self.trouble.give_way(yields).await;
        let job = self.jobs.job(id).await;
        self.trouble.give_way(yields).await;
        job
    }

    async fn commit(&self, units: Vec<Commit>) -> Vec<Result<Revision, CommitError>> {
        let faults = self.trouble.faults();
        self.trouble.give_way(faults.yields_max).await;
        let mut outcomes: Vec<Option<Result<Revision, CommitError>>> = Vec::new();
        let mut passed = Vec::new();
        for unit in units {
            let is_broken = faults.is_down || faults.unwritable.contains(&unit.job.id());
            if is_broken {
                outcomes.push(Some(Err(StoreError::Unavailable("it does not write this".to_owned()).into())));
            } else if self.trouble.fraction() < faults.commits_lost {
                outcomes.push(Some(Err(CommitError::Unknown)));
            } else {
                outcomes.push(None);
                passed.push(unit);
            }
        }
        let mut written = self.jobs.commit(passed).await.into_iter();
        if faults.holds_answers {
            self.trouble.held.fetch_add(1, Ordering::Relaxed);
            let _never_given = self.trouble.gate.acquire().await;
        }
        self.trouble.give_way(faults.yields_max).await;
        let answer = |outcome: Option<_>| {
            outcome.unwrap_or_else(|| {
                let written = written.next().unwrap_or(Err(CommitError::Stale));
                if self.trouble.fraction() < faults.answers_lost { Err(CommitError::Unknown) } else { written }
            })
        };
        outcomes.into_iter().map(answer).collect()
    }

    async fn open(&self, after: Option<JobId>, limit: u16) -> Result<Vec<Versioned<Job>>, StoreError> {
        self.trouble.check()?;
        let page = self.jobs.open(after, limit).await;
        self.trouble.give_way(self.trouble.faults().yields_max).await;
        page
    }

    async fn dependents(&self, id: JobId) -> Result<Vec<JobId>, StoreError> {
        self.trouble.check()?;
        self.jobs.dependents(id).await
    }

    async fn children(&self, parent: JobId) -> Result<Vec<(JobId, StageName)>, StoreError> {
        self.trouble.check()?;
        self.jobs.children(parent).await
    }

    async fn tree(&self, root: JobId) -> Result<Vec<Versioned<Job>>, StoreError> {
        self.trouble.check()?;
        self.jobs.tree(root).await
    }

    async fn changed(&self, after: Position) -> Result<Position, StoreError> {
        self.trouble.check()?;
        self.jobs.changed(after).await
    }
}

#[async_trait]
impl FleetStore for FaultyStore {
    async fn document(&self, collection: Collection, key: &str) -> Result<Option<Versioned<Value>>, StoreError> {
        self.trouble.check()?;
        self.documents.document(collection, key).await
    }

    async fn put(
        &self,
        collection: Collection,
        key: &str,
        expected: Expected,
        document: Option<Value>,
    ) -> Result<Revision, CommitError> {
        self.trouble.check()?;
        let faults = self.trouble.faults();
        self.trouble.give_way(faults.yields_max).await;
        if self.trouble.fraction() < faults.commits_lost {
            return Err(CommitError::Unknown);
        }
        let put = self.documents.put(collection, key, expected, document).await;
        self.trouble.give_way(faults.yields_max).await;
        if self.trouble.fraction() < faults.answers_lost { Err(CommitError::Unknown) } else { put }
    }

    async fn documents(&self, collection: Collection) -> Result<Vec<(String, Versioned<Value>)>, StoreError> {
        self.trouble.check()?;
        self.documents.documents(collection).await
    }
}

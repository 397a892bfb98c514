//! After a restore: factories and clients with state newer than the backup are fenced, and every open job continues
//! from the backup (row 28).

use domain::{
    Collection, Commit, CommitError, EventCursor, Expected, FleetStore, Generation, Job, Position, Refusal, StageEvent,
    StoreError, StoreGeneration, Timestamp, Versioned,
};
use fail::fail_point;
use serde_json::{Value, json};
use tracing::{error, warn};

use crate::coordinator::{COORDINATOR, Coordinator};
use crate::error::Error;

/// Jobs migrated per flush.
const LIFTED_MAX: usize = 500;

impl Coordinator {
    /// The generation of the store: it increases with every restore.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The cursor of a position in this store's event log.
    pub fn cursor(&self, position: Position) -> EventCursor {
        EventCursor { generation: self.generation, position }
    }

    /// The position of a client's cursor. A cursor of another generation is invalid here: the events before it may
    /// never have happened.
    pub fn position(&self, mark: EventCursor) -> Result<Position, Error> {
        if mark.generation == self.generation { Ok(mark.position) } else { Err(StoreError::BadCursor.into()) }
    }

    /// The job in this generation: the basis of every decision.
    pub(crate) fn migrated(&self, job: Job) -> Result<Job, Refusal> {
        if job.generation() >= self.generation {
            return Ok(job);
        }
        job.apply(StageEvent::Restored { generation: self.generation }, self.now(), COORDINATOR)
    }

    /// Migrates every open job to this generation at the start, so that old holders are fenced before any request is
    /// served. Ended jobs are migrated with their next change.
    pub(crate) async fn migrate_open_jobs(&self, lineage: &StoreGeneration) {
        let lifted = self.migrate_remaining().await;
        if lifted > 0 {
            let (generation, as_of) =
                (self.generation, lineage.as_of.map_or("an unknown time".to_owned(), |at| at.to_string()));
            warn!(
                store.generation = %generation, jobs.lifted = lifted,
                "The store was restored from a backup of {as_of}: {lifted} open jobs start again under generation \
                 {generation}. Tokens are as of the backup: revoke those that were revoked since"
            );
        }
    }

    /// Migrates open jobs of older generations; returns how many. Idempotent: the sweep does the same.
    pub(crate) async fn migrate_remaining(&self) -> usize {
        let older: Vec<_> = {
            let state = self.state.lock();
            state.jobs().filter(|job| job.value.generation() < self.generation).cloned().collect()
        };
        let mut lifted = 0;
        for some in older.chunks(LIFTED_MAX) {
            fail_point!("lift::before_commit", |_| lifted);
            let units: Vec<Commit> = some
                .iter()
                .filter_map(|job| {
                    let lifted = self.migrated((*job.value).clone()).ok()?;
                    Some(lifted.commit_at(Expected::At(job.revision), None))
                })
                .collect();
            let ids: Vec<_> = units.iter().map(|unit| unit.job.id()).collect();
            for (outcome, id) in self.commit_all(units).await.into_iter().zip(ids) {
                match outcome {
                    Ok(_) => lifted += 1,
                    Err(CommitError::Stale | CommitError::Unknown) => self.refresh(id).await,
                    Err(CommitError::Store(error)) => {
                        warn!(job.id = %id, %error, "Could not move job {} into this generation, the sweep retries", self.label(id));
                        self.mark_suspect();
                    }
                }
            }
        }
        lifted
    }
}

/// The store's generation and its history.
pub(crate) async fn store_generation(store: &dyn FleetStore, now: Timestamp) -> Result<StoreGeneration, Error> {
    let Some(document) = store.document(Collection::Meta, StoreGeneration::KEY).await? else {
        return Ok(StoreGeneration::default());
    };
    match serde_json::from_value(document.value.clone()) {
        Ok(lineage) => Ok(lineage),
        Err(error) => {
            error!("The generation of the store is unreadable, starting a new one: {error}");
            begin_generation(store, document, now).await
        }
    }
}

/// A store without a readable generation cannot decide which requests to fence: a new generation, from the clock,
/// fences all of them. The unreadable document is kept beside it.
async fn begin_generation(
    store: &dyn FleetStore,
    unreadable: Versioned<Value>,
    now: Timestamp,
) -> Result<StoreGeneration, Error> {
    let generation = Generation::restored(Generation::default(), None, now);
    let lineage = StoreGeneration { generation, restored_at: Some(now), as_of: None };
    let kept = store.document(Collection::Meta, UNREADABLE_KEY).await?;
    let expected = kept.map_or(Expected::Absent, |kept| Expected::At(kept.revision));
    put(store, UNREADABLE_KEY, expected, unreadable.value).await?;
    put(store, StoreGeneration::KEY, Expected::At(unreadable.revision), json!(lineage)).await?;
    Ok(lineage)
}

/// The key of the unreadable document.
const UNREADABLE_KEY: &str = "lineage-unreadable";

async fn put(store: &dyn FleetStore, key: &str, expected: Expected, document: Value) -> Result<(), StoreError> {
    match store.put(Collection::Meta, key, expected, Some(document)).await {
        Ok(_) => Ok(()),
        Err(CommitError::Store(error)) => Err(error),
        Err(error) => Err(StoreError::Unavailable(error.to_string())),
    }
}

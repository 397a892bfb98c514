//! Requests with retries: throttled and rejected requests are sent again after a pause. Every attempt is counted.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, Entropy, StoreError};
use parking_lot::Mutex;

use super::batch::{BatchError, Op};
use super::database::{
    Container, Continuation, DocumentDatabase, Etag, FeedPage, Item, Key, Partition, Query, RequestError,
};

/// Maximum attempts of one request: as many as the vendors' clients make.
const ATTEMPTS_MAX: u32 = 10;

/// The first pause after a rejected request; it doubles, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(10);

/// Maximum single pause: the caller has a deadline of its own.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Why a batch was not written.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The precondition of the write at this index failed.
    Refused { at: usize },
    /// The outcome is unknown. Never retried here, because only a fresh read can decide what to do.
    Unknown,
    /// The batch was not written.
    Store(StoreError),
}

/// The database behind a retry policy.
pub(super) struct Requests {
    database: Arc<dyn DocumentDatabase>,
    clock: Arc<dyn Clock>,
    chance: Arc<dyn Entropy>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl Requests {
    pub(super) fn new(database: Arc<dyn DocumentDatabase>, clock: Arc<dyn Clock>, chance: Arc<dyn Entropy>) -> Self {
        let counts = ["read", "range", "query", "batch", "feed"].map(|kind| (kind, 0));
        Self { database, clock, chance, counts: Mutex::new(counts.into()) }
    }

    /// The number of requests by kind, failed ones included.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        self.counts.lock().iter().map(|(kind, count)| (*kind, *count)).collect()
    }

    pub(super) fn wakeups(&self) -> tokio::sync::watch::Receiver<u64> {
        self.database.wakeups()
    }

    pub(super) async fn read(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        self.ask("read", || self.database.read(key)).await
    }

    pub(super) async fn range(
        &self,
        container: Container,
        partition: &Partition,
        ids: RangeInclusive<String>,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        self.ask("range", || self.database.range(container, partition, ids.clone(), limit)).await
    }

    pub(super) async fn query(&self, query: &Query) -> Result<Vec<Item>, StoreError> {
        self.ask("query", || self.database.query(query.clone())).await
    }

    pub(super) async fn changes(&self, after: Option<&Continuation>, limit: usize) -> Result<FeedPage, StoreError> {
        self.ask("feed", || self.database.changes(after, limit)).await
    }

    /// Sends a read until it is answered. A read can be retried after any failure.
    async fn ask<T, F>(&self, kind: &'static str, request: impl Fn() -> F + Send) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, RequestError>> + Send,
    {
        for attempt in 0..ATTEMPTS_MAX {
            self.count(kind);
            match request().await {
                Ok(answer) => return Ok(answer),
                Err(RequestError::Throttled(after)) => self.pause(after).await,
                Err(RequestError::NotExecuted | RequestError::TimedOut) => self.pause(backoff(attempt)).await,
                Err(RequestError::Invalid(why)) => return Err(invalid(&why)),
            }
        }
        Err(retries_exhausted())
    }

    /// Writes a batch. It is retried only when it is known not to have been executed.
    pub(super) async fn write(
        &self,
        container: Container,
        partition: &Partition,
        ops: &[Op],
    ) -> Result<Vec<Etag>, WriteError> {
        for attempt in 0..ATTEMPTS_MAX {
            self.count("batch");
            match self.database.batch(container, partition, ops.to_vec()).await {
                Ok(etags) => return Ok(etags),
                Err(BatchError::Refused { at }) => return Err(WriteError::Refused { at }),
                Err(BatchError::TooLarge) => {
                    let why = "the transaction is larger than the database's limit".to_owned();
                    return Err(WriteError::Store(StoreError::Corrupt(why)));
                }
                Err(BatchError::Request(RequestError::Invalid(why))) => return Err(WriteError::Store(invalid(&why))),
                Err(BatchError::Request(RequestError::TimedOut)) => return Err(WriteError::Unknown),
                Err(BatchError::Request(RequestError::Throttled(after))) => self.pause(after).await,
                Err(BatchError::Request(RequestError::NotExecuted)) => self.pause(backoff(attempt)).await,
            }
        }
        Err(WriteError::Store(retries_exhausted()))
    }

    /// Waits between `span` and twice `span`, so that requests that were throttled together do not return together.
    pub(super) async fn pause(&self, span: Duration) {
        let span = span.min(PAUSE_MAX);
        self.clock.sleep(span + span.mul_f64(self.chance.fraction())).await;
    }

    fn count(&self, kind: &'static str) {
        *self.counts.lock().entry(kind).or_default() += 1;
    }
}

/// The pause before the next attempt.
pub(super) fn backoff(attempt: u32) -> Duration {
    domain::doubled(PAUSE, attempt, PAUSE_MAX)
}

fn retries_exhausted() -> StoreError {
    StoreError::Unavailable(format!("no answer after {ATTEMPTS_MAX} tries"))
}

fn invalid(why: &str) -> StoreError {
    StoreError::Unavailable(format!("the database rejects the request: {why}"))
}

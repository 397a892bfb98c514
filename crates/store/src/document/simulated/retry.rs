//! Retries with backoff: throttled and rejected requests are sent again after a pause.

use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, Entropy, StoreError};

use super::batch::{BatchError, Op};
use super::database::{RequestError, SimulatedDatabase};

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
pub(super) struct RetryingDatabase {
    pub(super) database: Arc<SimulatedDatabase>,
    clock: Arc<dyn Clock>,
    chance: Arc<dyn Entropy>,
}

impl RetryingDatabase {
    pub(super) fn new(database: Arc<SimulatedDatabase>, clock: Arc<dyn Clock>, chance: Arc<dyn Entropy>) -> Self {
        Self { database, clock, chance }
    }

    /// Sends a read until it is answered. A read can be retried after any failure.
    pub(super) async fn ask<T, F>(&self, request: impl Fn() -> F + Send) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, RequestError>> + Send,
    {
        for attempt in 0..ATTEMPTS_MAX {
            match request().await {
                Ok(answer) => return Ok(answer),
                Err(RequestError::Throttled(after)) => self.pause(after).await,
                Err(RequestError::Refused | RequestError::TimedOut) => self.pause(backoff(attempt)).await,
            }
        }
        Err(retries_exhausted())
    }

    /// Writes a batch. It is retried only when it is known not to have been executed.
    pub(super) async fn write(
        &self,
        container: &'static str,
        partition: &str,
        ops: &[Op],
    ) -> Result<Vec<u64>, WriteError> {
        for attempt in 0..ATTEMPTS_MAX {
            match self.database.batch(container, partition, ops.to_vec()).await {
                Ok(etags) => return Ok(etags),
                Err(BatchError::Refused { at }) => return Err(WriteError::Refused { at }),
                Err(BatchError::TooLarge) => {
                    let why = "the transaction is larger than the database's limit".to_owned();
                    return Err(WriteError::Store(StoreError::Corrupt(why)));
                }
                Err(BatchError::Request(RequestError::TimedOut)) => return Err(WriteError::Unknown),
                Err(BatchError::Request(RequestError::Throttled(after))) => self.pause(after).await,
                Err(BatchError::Request(RequestError::Refused)) => self.pause(backoff(attempt)).await,
            }
        }
        Err(WriteError::Store(retries_exhausted()))
    }

    /// Waits between `span` and twice `span`, so that requests that were throttled together do not return together.
    pub(super) async fn pause(&self, span: Duration) {
        let span = span.min(PAUSE_MAX);
        self.clock.sleep(span + span.mul_f64(self.chance.fraction())).await;
    }
}

/// The pause before the next attempt.
pub(super) fn backoff(attempt: u32) -> Duration {
    domain::doubled(PAUSE, attempt, PAUSE_MAX)
}

fn retries_exhausted() -> StoreError {
    StoreError::Unavailable(format!("no answer after {ATTEMPTS_MAX} tries"))
}

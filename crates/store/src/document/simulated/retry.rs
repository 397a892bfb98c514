//! How long the adapter bears with its database: throttled and refused requests are made again, after a pause.

use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, Entropy, StoreError};

use super::batch::{BatchError, Op};
use super::database::{RequestError, SimulatedDatabase};

/// Tries of one request: as many as the vendors' own clients make.
const ATTEMPTS_MAX: u32 = 10;

/// The first pause after a request that was refused; it doubles, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(10);

/// No single pause is longer: whoever waits for the answer has a deadline of its own.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Why a batch was not written.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The condition of the write at this place did not hold.
    Refused { at: usize },
    /// Nobody knows whether it was written: never tried again here, because only a fresh read can tell what to do.
    Unknown,
    /// It was not written.
    Store(StoreError),
}

/// The database through somebody who waits.
pub(super) struct RetryingDatabase {
    pub(super) database: Arc<SimulatedDatabase>,
    clock: Arc<dyn Clock>,
    chance: Arc<dyn Entropy>,
}

impl RetryingDatabase {
    pub(super) fn new(database: Arc<SimulatedDatabase>, clock: Arc<dyn Clock>, chance: Arc<dyn Entropy>) -> Self {
        Self { database, clock, chance }
    }

    /// Makes a request that changes nothing until it is answered: it can be made again whatever became of it.
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
        Err(given_up())
    }

    /// Writes a batch. It is sent again only when it is known not to have happened.
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
                    let why = "the unit is larger than the database takes at once".to_owned();
                    return Err(WriteError::Store(StoreError::Corrupt(why)));
                }
                Err(BatchError::Request(RequestError::TimedOut)) => return Err(WriteError::Unknown),
                Err(BatchError::Request(RequestError::Throttled(after))) => self.pause(after).await,
                Err(BatchError::Request(RequestError::Refused)) => self.pause(backoff(attempt)).await,
            }
        }
        Err(WriteError::Store(given_up()))
    }

    /// Waits at least `span` and at most twice as long, so that those who were turned away together do not come back
    /// together.
    pub(super) async fn pause(&self, span: Duration) {
        let span = span.min(PAUSE_MAX);
        self.clock.sleep(span + span.mul_f64(self.chance.fraction())).await;
    }
}

/// The pause before the next try.
pub(super) fn backoff(attempt: u32) -> Duration {
    PAUSE.saturating_mul(2_u32.saturating_pow(attempt)).min(PAUSE_MAX)
}

fn given_up() -> StoreError {
    StoreError::Unavailable(format!("no answer after {ATTEMPTS_MAX} tries"))
}

//! The factories of a benchmark, at work until it is over.

use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, ProductId};
use tokio::task::JoinSet;

use crate::Error;
use crate::fake_worker::FakeWorker;
use crate::target::BenchTarget;

/// No measurement takes longer; one that does has lost something.
const MEASURE_MAX: Duration = Duration::from_secs(20 * 60);

/// A factory without a heartbeat for a while gets no work: each sends heartbeats.
const BEAT_EVERY: Duration = Duration::from_secs(20);

/// Factories' clients at work. Dropped, they stop.
pub(crate) struct WorkerPool {
    working: JoinSet<Result<(), Error>>,
}

impl WorkerPool {
    /// So many factories with so many seats, each doing `work`.
    pub(crate) async fn hire<W, F>(
        ground: &BenchTarget,
        product: &ProductId,
        (factories, seats): (u32, u32),
        work: W,
    ) -> Result<Self, Error>
    where
        W: Fn(FakeWorker) -> F,
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let mut working = JoinSet::new();
        for n in 0..factories as usize {
            let hand = ground.hire(product, n, seats).await?;
            working.spawn(beat(hand.clone(), Arc::clone(&ground.clock)));
            working.spawn(work(hand));
        }
        Ok(Self { working })
    }

    /// Waits for `measurement`, but not for ever, and not after one of the factories has failed.
    pub(crate) async fn during<T>(&mut self, measurement: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::select! {
            measured = tokio::time::timeout(MEASURE_MAX, measurement) => match measured {
                Ok(measured) => measured,
                Err(_) => Err(Error::failed("not all lives came to their end: see the coordinator's log")),
            },
            Some(ended) = self.working.join_next() => {
                ended.map_err(|error| Error::failed(error.to_string()))??;
                Err(Error::failed("a factory's stream ended in the middle of the benchmark"))
            }
        }
    }
}

async fn beat(hand: FakeWorker, clock: Arc<dyn Clock>) -> Result<(), Error> {
    loop {
        clock.sleep(BEAT_EVERY).await;
        hand.beat().await?;
    }
}

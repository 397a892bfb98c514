//! The search index is written after the jobs: in the background, while there is something to add.

use std::time::Duration;

use domain::IndexProgress;
use tracing::warn;

use crate::coordinator::Coordinator;

/// Changes that arrive together are added together.
const COLLECT_FOR: Duration = Duration::from_millis(200);

/// A step is followed by a pause that is longer by this factor: the index takes a tenth of a processor and of the
/// writer's time, and falls behind when the fleet needs both. Lists read what it lacks from the log.
const PAUSE_FACTOR: u32 = 9;

/// Bounds of that pause.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pause after a failed step.
const RETRY_AFTER: Duration = Duration::from_secs(10);

impl Coordinator {
    /// Adds changed jobs to the search index until [`Coordinator::stop`]. Without changes, the store is not used.
    pub(crate) async fn run_search_indexer(&self) {
        self.stopping.run_until_cancelled(self.index_jobs()).await;
    }

    async fn index_jobs(&self) {
        let clock = &self.ports.clock;
        loop {
            let begun = clock.monotonic();
            match self.ports.history.index_jobs().await {
                Ok(IndexProgress::KeptByWrites) => return,
                Ok(IndexProgress::Behind) => {
                    let took = clock.monotonic().saturating_sub(begun);
                    clock.sleep((took * PAUSE_FACTOR).clamp(PAUSE_MIN, PAUSE_MAX)).await;
                }
                Ok(IndexProgress::Complete(end)) => {
                    if self.ports.jobs.changed(end).await.is_err() {
                        clock.sleep(RETRY_AFTER).await;
                    }
                    clock.sleep(COLLECT_FOR).await;
                }
                Err(error) => {
                    warn!(%error, "Could not add jobs to the search index, trying again in 10 seconds: {error}");
                    clock.sleep(RETRY_AFTER).await;
                }
            }
        }
    }
}

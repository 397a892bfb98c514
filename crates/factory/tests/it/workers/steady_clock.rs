//! A clock that does not advance while the machine stalls.

use std::sync::Arc;
use std::time::Duration;

use clock::ManualClock;
use domain::Clock;
use testkit::host::{becomes_so, clock};
use tokio::task::JoinSet;

/// Finer than anything that is timed by it.
const TICK: Duration = Duration::from_millis(10);

/// How long the machine has for the work of one step of time.
const STEP_PATIENCE: Duration = Duration::from_secs(1);

/// A clock that runs in real time until it is stopped, and afterwards only as far as a test moves it. A stall makes it
/// stand still, because lost time is not caught up.
pub(crate) struct Hours {
    clock: ManualClock,
    passing: JoinSet<()>,
}

impl Hours {
    /// Time that passes.
    pub(crate) fn passing() -> Self {
        let real = clock();
        let manual = ManualClock::at(real.now());
        let mut passing = JoinSet::new();
        passing.spawn({
            let manual = manual.clone();
            async move {
                loop {
                    real.sleep(TICK).await;
                    manual.advance(TICK);
                }
            }
        });
        Self { clock: manual, passing }
    }

    /// The clock that shows it.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    /// Stops the clock.
    pub(crate) fn stop(&mut self) {
        self.passing.abort_all();
    }

    /// Advances to a moment, unless it has passed.
    pub(crate) fn pass_until(&self, moment: Duration) {
        self.clock.advance(moment.saturating_sub(self.clock.monotonic()));
    }

    /// Advances step by step until a condition holds, and never beyond a moment. Returns whether it held.
    pub(crate) async fn step_until(&self, moment: Duration, step: Duration, is_so: impl Fn() -> bool) -> bool {
        while !becomes_so(STEP_PATIENCE, &is_so).await {
            if self.clock.monotonic() + step > moment {
                return false;
            }
            self.clock.advance(step);
        }
        true
    }
}

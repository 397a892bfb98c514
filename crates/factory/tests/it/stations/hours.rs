//! Time that a machine which stalls cannot use up.

use std::sync::Arc;
use std::time::Duration;

use clock::ManualClock;
use domain::Clock;
use tokio::task::JoinSet;

use crate::stage::{becomes_so, clock};

/// Finer than anything that is timed by it.
const TICK: Duration = Duration::from_millis(10);

/// How long the machine has to do what one step of time asks for.
const STEP_PATIENCE: Duration = Duration::from_secs(1);

/// Time that goes at the machine's own pace until it is stopped, and afterwards only as far as a test says. Whoever
/// stalls makes it stand still, because nothing is made up for.
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

    /// Lets no more of it pass.
    pub(crate) fn stop(&mut self) {
        self.passing.abort_all();
    }

    /// Moves on to a moment, unless it is over already.
    pub(crate) fn pass_until(&self, moment: Duration) {
        self.clock.advance(moment.saturating_sub(self.clock.monotonic()));
    }

    /// Moves on step by step until something is so, and never beyond a moment. Says whether it became so.
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

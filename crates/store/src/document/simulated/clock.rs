//! A clock for tests that do not wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Clock, Timestamp};

/// A clock on which every sleep ends at once and its time counts as passed. A sleeper yields to other tasks first.
#[derive(Debug, Default)]
pub struct HastyClock {
    slept_ms: AtomicU64,
}

#[async_trait]
impl Clock for HastyClock {
    fn now(&self) -> Timestamp {
        Timestamp::default().after(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.slept_ms.load(Ordering::Relaxed))
    }

    async fn sleep(&self, span: Duration) {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        self.slept_ms.fetch_add(millis, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
}

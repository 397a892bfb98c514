//! The only module that reads the operating system's clock and random numbers.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use domain::{Clock, Entropy, Timestamp};

/// The operating system's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Creates a clock whose monotonic time starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the adapter behind the Clock port")]
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the adapter behind the Clock port")]
    fn now(&self) -> Timestamp {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
        #[cfg(feature = "failpoints")]
        let millis = millis.saturating_add(shift::millis());
        Timestamp::from_millis(millis)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the adapter behind the Clock port")]
    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

/// The operating system's random number generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::panic, reason = "without randomness no token is safe: there is nothing to fall back to")]
    fn fill(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the operating system provides no random numbers: {error}");
        }
    }
}

/// A wrong clock, for tests of fleets whose machines disagree about the time. Never in a release.
#[cfg(feature = "failpoints")]
mod shift {
    use std::path::PathBuf;
    use std::sync::OnceLock;

    /// `GIGA_CLOCK_SHIFT=FILE`: the file holds the milliseconds by which the wall clock of this process is wrong. It is
    /// read each time, so that a test can set the clock while the process runs.
    const VARIABLE: &str = "GIGA_CLOCK_SHIFT";

    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();

    pub(super) fn millis() -> i64 {
        let file = FILE.get_or_init(|| std::env::var_os(VARIABLE).map(PathBuf::from));
        let text = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    }
}

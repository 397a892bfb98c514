//! A clock that tests advance by hand, and seeded entropy.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{Clock, Entropy, Timestamp};
use parking_lot::Mutex;
use tokio::sync::watch;

/// A clock that stands still until a test advances it. Clones share one time.
#[derive(Debug, Clone)]
pub struct ManualClock {
    start: Timestamp,
    elapsed: Arc<watch::Sender<Duration>>,
}

impl ManualClock {
    /// Creates a clock that shows `start`.
    pub fn at(start: Timestamp) -> Self {
        Self { start, elapsed: Arc::new(watch::Sender::new(Duration::ZERO)) }
    }

    /// Advances the time by `span` and wakes every sleeper whose deadline has passed.
    pub fn advance(&self, span: Duration) {
        self.elapsed.send_modify(|elapsed| *elapsed += span);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::at(Timestamp::from_millis(1_767_225_600_000))
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.start.after(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        *self.elapsed.borrow()
    }

    async fn sleep(&self, span: Duration) {
        let wake_at = self.monotonic() + span;
        let mut elapsed = self.elapsed.subscribe();
        // The sender lives in `self`, so waiting cannot fail while we are borrowed from it.
        let _ = elapsed.wait_for(|elapsed| *elapsed >= wake_at).await;
    }
}

/// Deterministic entropy: one seed yields one byte sequence. Never use it for the tokens of a real fleet.
#[derive(Debug)]
pub struct SeededEntropy {
    state: Mutex<u64>,
}

impl SeededEntropy {
    /// Creates the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: Mutex::new(seed) }
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = self.state.lock();
        for chunk in bytes.chunks_mut(8) {
            let word = splitmix(&mut state).to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// One step of SplitMix64: small, fast, and evenly distributed over all seeds.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleeper_wakes_at_its_deadline_and_not_before() {
        let clock = ManualClock::default();
        let sleeper = {
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_secs(10)).await }
        };
        tokio::pin!(sleeper);

        clock.advance(Duration::ZERO);
        assert!(futures_poll(&mut sleeper).await.is_pending());
        clock.advance(Duration::from_secs(9));
        assert!(futures_poll(&mut sleeper).await.is_pending());
        clock.advance(Duration::from_secs(1));

        sleeper.await;
        assert_eq!(clock.monotonic(), Duration::from_secs(10));
    }

    async fn futures_poll<F: Future<Output = ()> + Unpin>(future: &mut F) -> std::task::Poll<()> {
        std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx))).await
    }

    #[test]
    fn one_seed_yields_one_sequence() {
        let (mut left, mut right) = ([0; 20], [0; 20]);

        SeededEntropy::new(7).fill(&mut left);
        SeededEntropy::new(7).fill(&mut right);

        assert_eq!(left, right);
        assert_ne!(left, [0; 20]);
    }
}

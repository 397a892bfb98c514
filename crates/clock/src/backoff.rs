//! Pauses between attempts.

use std::time::Duration;

/// Pauses between attempts: each is twice as long as the one before, up to a maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// Begins with `first`; no pause is longer than `max`.
    pub fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, next: first.min(max) }
    }

    /// The pause before the next attempt.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.max);
        pause
    }

    /// Begins with the first pause again, after a success.
    pub fn reset(&mut self) {
        self.next = self.first.min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum_and_begin_again_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(1));
        let mut millis = |count: usize| -> Vec<u128> {
            let pauses = std::iter::repeat_with(|| backoff.next_pause().as_millis()).take(count).collect();
            backoff.reset();
            pauses
        };

        assert_eq!(millis(5), [200, 400, 800, 1_000, 1_000]);
        assert_eq!(millis(2), [200, 400]);
    }
}

//! Turning samples into figures.

use std::time::Duration;

/// Samples of one thing.
#[derive(Debug, Default, Clone)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn add(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The sample that `percent` of all do not exceed; zero without samples.
    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let place = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        sorted.get(place.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> Duration {
        self.percentile(50.0)
    }
}

/// Milliseconds with microsecond precision.
pub(crate) fn millis(span: Duration) -> f64 {
    rounded(span.as_secs_f64() * 1_000.0, 3)
}

/// A figure with this many decimals.
pub(crate) fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_sample() {
        let mut samples = Samples::default();
        (1..=100).rev().for_each(|n| samples.add(Duration::from_millis(n)));

        assert_eq!(samples.median(), Duration::from_millis(50));
        assert_eq!(samples.percentile(99.0), Duration::from_millis(99));
        assert_eq!(samples.percentile(100.0), Duration::from_millis(100));
        assert_eq!(Samples::default().median(), Duration::ZERO);
    }
}

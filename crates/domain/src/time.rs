//! Points in time, and the ports through which time and chance come in.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// A point in time by the coordinator's clock, to the millisecond. RFC 3339 in JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, format = "date-time")]
pub struct Timestamp(i64);

impl Timestamp {
    /// The point this many milliseconds after 1970.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This point and `span` later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        text.parse::<jiff::Timestamp>()
            .map(|at| Self(at.as_millisecond()))
            .map_err(|_| TimestampError(crate::names::printable(text)))
    }
}

impl TryFrom<String> for Timestamp {
    type Error = TimestampError;

    fn try_from(text: String) -> Result<Self, TimestampError> {
        text.parse()
    }
}

impl From<Timestamp> for String {
    fn from(at: Timestamp) -> String {
        at.to_string()
    }
}

/// A text that is not a point in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time: expected RFC 3339, such as `2026-01-31T12:00:00Z`")]
pub struct TimestampError(String);

/// Where time comes from. Nothing else in the system may ask the machine.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The wall clock. May jump; deadlines that cross processes are counted on the coordinator's alone.
    fn now(&self) -> Timestamp;
    /// Time since some fixed point of this process; never jumps back. Leases are counted on it by their holder.
    fn monotonic(&self) -> Duration;
    /// Resolves once `span` has passed.
    async fn sleep(&self, span: Duration);
}

/// Where chance comes from: ids, nonces, tokens and jitter.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `bytes` with bytes that nobody can guess.
    fn fill(&self, bytes: &mut [u8]);
}

impl dyn Entropy {
    /// `N` random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// A number in [0, 1).
    pub fn fraction(&self) -> f64 {
        f64::from(u32::from_le_bytes(self.bytes())) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_survives_being_written_down() {
        let at = Timestamp::from_millis(1_769_860_800_123);

        assert_eq!(at.to_string(), "2026-01-31T12:00:00.123Z");
        assert_eq!(at.to_string().parse(), Ok(at));
    }

    #[test]
    fn nothing_is_negative_time_ago() {
        let now = Timestamp::from_millis(1_000);

        assert_eq!(now.since(now.after(Duration::from_secs(5))), Duration::ZERO);
    }
}

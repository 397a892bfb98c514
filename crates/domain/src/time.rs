//! Timestamps, and the ports for time and randomness.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// A point in time by the coordinator's clock, to the millisecond. RFC 3339 in JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, format = "date-time", max_length = 64, example = "2026-01-31T12:00:00.000Z")]
pub struct Timestamp(i64);

impl Timestamp {
    /// The latest point that RFC 3339 can express in every time zone.
    pub const MAX: Self = Self(253_402_207_200_000);

    /// The earliest one.
    pub const MIN: Self = Self(-377_705_023_201_000);

    /// The point this many milliseconds after 1970.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This time plus `span`, at most [`Timestamp::MAX`], so that the stored sum stays readable.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))).clamped()
    }

    /// The nearest time that RFC 3339 can express.
    fn clamped(self) -> Self {
        self.clamp(Self::MIN, Self::MAX)
    }

    /// This time minus `span`.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Display text to the second, with its zone.
    pub fn to_the_second(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
            Err(_) => self.to_string(),
        }
    }

    /// Display text to the minute, with its zone.
    pub fn to_the_minute(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
            Err(_) => self.to_string(),
        }
    }

    /// Duration since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.digits() {
            Some(digits) => serializer.serialize_str(std::str::from_utf8(&digits).unwrap_or_default()),
            None => serializer.collect_str(self),
        }
    }
}

/// `2026-01-31T12:00:00.000Z`.
const DIGITS_LEN: usize = 24;

impl Timestamp {
    /// The text of a time between 1970 and 9998. A fast path, because every document and event has several; tests
    /// compare it with the library.
    fn digits(self) -> Option<[u8; DIGITS_LEN]> {
        const DAY: i64 = 86_400_000;
        if !(0..2_932_532 * DAY).contains(&self.0) {
            return None;
        }
        let (days, millis) = (self.0 / DAY, self.0 % DAY);
        // Years start on 1 March of year 0, so that the leap day is the last day.
        let days = days + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let mut put = |at: usize, value: i64| {
            let value = value as u8;
            (text[at], text[at + 1]) = (b'0' + value / 10, b'0' + value % 10);
        };
        let year = era * 400 + year;
        put(0, year / 100);
        put(2, year % 100);
        put(5, month);
        put(8, day);
        put(11, millis / 3_600_000);
        put(14, millis / 60_000 % 60);
        put(17, millis / 1_000 % 60);
        put(20, millis / 10 % 100);
        text[22] = b'0' + (millis % 10) as u8;
        Some(text)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(digits) = self.digits() {
            return f.write_str(std::str::from_utf8(&digits).unwrap_or_default());
        }
        match jiff::Timestamp::from_millisecond(self.clamped().0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => write!(f, "{}{MILLIS_UNIT}", self.0),
        }
    }
}

/// Earlier versions wrote a time that RFC 3339 cannot express as `253402300800000ms`.
const MILLIS_UNIT: &str = "ms";

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        if let Some(Ok(millis)) = text.strip_suffix(MILLIS_UNIT).map(str::parse) {
            return Ok(Self(millis).clamped());
        }
        text.parse::<jiff::Timestamp>()
            .map(|at| Self(at.as_millisecond()).clamped())
            .map_err(|_| TimestampError(crate::names::escape_for_terminal(text)))
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

/// A text that is not a timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time: expected RFC 3339, such as `2026-01-31T12:00:00Z`")]
pub struct TimestampError(String);

/// The only source of time.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The wall clock. It may jump; deadlines across processes use only the coordinator's.
    fn now(&self) -> Timestamp;
    /// Monotonic time since a fixed point of this process. Holders measure leases with it.
    fn monotonic(&self) -> Duration;
    /// Resolves once `span` has passed.
    async fn sleep(&self, span: Duration);
}

/// The only source of randomness: ids, nonces, tokens and jitter.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `bytes` with unpredictable bytes.
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
    fn a_timestamp_round_trips_through_text() {
        let at = Timestamp::from_millis(1_769_860_800_123);

        assert_eq!(at.to_string(), "2026-01-31T12:00:00.123Z");
        assert_eq!(at.to_string().parse(), Ok(at));
    }

    #[test]
    fn the_fast_path_formats_like_the_library() {
        let day = 86_400_000;
        let days = (0..800_000).step_by(7).map(|n| n * day + (n * 7_919) % day);
        let corners = [0, -1, day - 1, 951_782_400_000, 253_402_300_799_999, 253_402_300_800_000, 4_107_542_399_999];

        for millis in days.chain(corners) {
            let at = Timestamp::from_millis(millis);
            let written = serde_json::to_value(at).unwrap();

            let library = jiff::Timestamp::from_millisecond(millis);
            let nearest = || "9999-12-30T22:00:00.000Z".to_owned();
            let expected = library.map_or_else(|_| nearest(), |at| format!("{at:.3}"));
            assert_eq!((written, at.to_string()), (expected.clone().into(), expected));
        }
    }

    #[test]
    fn an_overflowing_sum_stays_readable() {
        let now = Timestamp::from_millis(1_769_860_800_123);

        for span in [Duration::from_secs(1 << 40), Duration::from_secs(u64::MAX), Duration::MAX] {
            let text = serde_json::to_string(&now.after(span)).unwrap();

            assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), Timestamp::MAX, "{text}");
        }
        assert_eq!("9223372036854775807ms".parse(), Ok(Timestamp::MAX), "as earlier versions wrote it");
        assert_eq!("-9223372036854775808ms".parse(), Ok(Timestamp::MIN));
    }

    #[test]
    fn a_duration_since_a_later_time_is_zero() {
        let now = Timestamp::from_millis(1_000);

        assert_eq!(now.since(now.after(Duration::from_secs(5))), Duration::ZERO);
    }
}

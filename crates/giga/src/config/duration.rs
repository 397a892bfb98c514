//! Spans of time as people write them: `90s`, `2m`, `1h30m`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use super::setting::DisplayedValue;

/// Units in the order in which they may follow each other.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Ten years: longer is a slip, and sums of such spans stay far from overflowing.
const SPAN_MS_MAX: u64 = 3_660 * 86_400_000;

/// A span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct HumanDuration(pub(crate) Duration);

impl FromStr for HumanDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown = domain::escape_for_terminal(text);
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("`{shown}` has no unit: write `{shown}s`, `{shown}m` or `{shown}h`"));
        }
        match domain::duration_millis(text, &UNITS) {
            Some(millis) if millis <= SPAN_MS_MAX => Ok(Self(Duration::from_millis(millis))),
            Some(_) => Err(format!("`{shown}` is longer than ten years")),
            None => Err(format!("`{shown}` is not a span of time: write `90s`, `2m` or `1h30m`")),
        }
    }
}

impl TryFrom<String> for HumanDuration {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest == 0 {
            return f.write_str("0s");
        }
        for (name, unit_ms) in UNITS {
            let count = rest / unit_ms;
            rest %= unit_ms;
            if count > 0 {
                write!(f, "{count}{name}")?;
            }
        }
        Ok(())
    }
}

impl DisplayedValue for HumanDuration {
    fn shown(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_survives_being_written_down() {
        for (text, millis) in
            [("90s", 90_000), ("2m", 120_000), ("1h30m", 5_400_000), ("500ms", 500), ("30d", 2_592_000_000)]
        {
            assert_eq!(text.parse(), Ok(HumanDuration(Duration::from_millis(millis))), "{text}");
            assert_eq!(
                HumanDuration(Duration::from_millis(millis)).to_string().parse::<HumanDuration>(),
                text.parse(),
                "{text}"
            );
        }
        assert_eq!(HumanDuration(Duration::from_secs(90)).to_string(), "1m30s");
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for text in ["", "s", "1x", "30m1h", "1h1h", "-1s", "1 s", "½h", "99999999999999999999h"] {
            assert!(text.parse::<HumanDuration>().is_err(), "{text:?}");
        }
    }
}

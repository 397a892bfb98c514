//! Durations as users write them: `90s`, `30m`, `1h30m`, `500ms`.

use crate::names::escape_for_terminal;

/// A year. Longer durations are mistakes, and sums of valid ones do not overflow.
const DURATION_MS_MAX: u64 = 366 * 24 * 3_600_000;

/// Units in the required order.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The pattern in the schema. Only [`millis`] checks the order of units.
pub(super) const PATTERN: &str = "^([0-9]+(ms|s|m|h))+$";

/// Parses a duration such as `1h30m` into milliseconds.
pub(super) fn millis(text: &str) -> Result<u64, String> {
    let shown = escape_for_terminal(text);
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("`{shown}` has no unit: write `{shown}s`, `{shown}m` or `{shown}h`"));
    }
    match duration_millis(text, &UNITS) {
        Some(total) if total > DURATION_MS_MAX => Err(format!("`{shown}` is longer than a year")),
        Some(total) => Ok(total),
        None => {
            Err(format!("expected a duration such as `90s`, `30m`, `1h30m` or `500ms`, found the text \"{shown}\""))
        }
    }
}

/// Parses numbers with units in descending order, such as `1h30m`, into milliseconds. A total that overflows is
/// [`u64::MAX`].
pub fn duration_millis(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let mut units = units.iter();
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, tail) = tail.split_at(tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len()));
        let (_, unit_ms) = units.find(|(name, _)| *name == unit)?;
        if number.is_empty() {
            return None;
        }
        // A number that overflows is a duration that is too long, not a syntax error.
        let number = number.parse().unwrap_or(u64::MAX);
        total = total.saturating_add(unit_ms.saturating_mul(number));
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_into_milliseconds() {
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("90s"), Ok(90_000));
        assert_eq!(millis("30m"), Ok(1_800_000));
        assert_eq!(millis("2h"), Ok(7_200_000));
        assert_eq!(millis("1h30m"), Ok(5_400_000));
        assert_eq!(millis("1h2m3s4ms"), Ok(3_723_004));
    }

    #[test]
    fn a_number_without_a_unit_is_rejected() {
        assert_eq!(millis("30"), Err("`30` has no unit: write `30s`, `30m` or `30h`".to_owned()));
    }

    #[test]
    fn units_must_be_unique_and_in_order() {
        for text in ["", "h", "1x", "30m1h", "1h1h", "1.5h", "-1h", "1 h", "1h ", "1:30", "1H", "1hm", "½h", "1é"] {
            assert!(millis(text).is_err_and(|message| message.starts_with("expected a duration")), "{text:?}");
        }
    }

    #[test]
    fn an_overflowing_duration_is_too_long() {
        assert_eq!(millis("8785h"), Err("`8785h` is longer than a year".to_owned()));
        assert_eq!(millis("99999999999999999999h"), Err("`99999999999999999999h` is longer than a year".to_owned()));
    }
}

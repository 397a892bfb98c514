//! Sizes as people write them: `256MiB`, `10GiB`.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::setting::DisplayedValue;

/// Units, the largest first.
const UNITS: [(&str, u64); 5] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A petabyte: more is a slip, and sums of such sizes stay far from overflowing.
const SIZE_MAX: u64 = 1 << 50;

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Size(pub(super) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown = domain::escape_for_terminal(text);
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("`{shown}` has no unit: write `{shown}MiB` or `{shown}GiB`"));
        }
        match bytes(text) {
            Some(bytes) if bytes <= SIZE_MAX => Ok(Self(bytes)),
            Some(_) => Err(format!("`{shown}` is more than any disk holds")),
            None => Err(format!("`{shown}` is not a size: write `256MiB` or `10GiB`")),
        }
    }
}

fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
    if number.is_empty() {
        return None;
    }
    // Digits that no longer fit are a size that is too large, not a text that is no size.
    Some(unit.saturating_mul(number.parse().unwrap_or(u64::MAX)))
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = UNITS.iter().find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit));
        let (name, unit) = whole.unwrap_or(&("B", 1));
        write!(f, "{}{name}", self.0 / unit)
    }
}

impl DisplayedValue for Size {
    fn shown(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_survives_being_written_down() {
        for (text, bytes) in [("0B", 0), ("700B", 700), ("256MiB", 256 << 20), ("10GiB", 10 << 30), ("1TiB", 1 << 40)] {
            assert_eq!((text.parse(), Size(bytes).to_string().as_str()), (Ok(Size(bytes)), text));
        }
        assert_eq!(Size((1 << 30) + 1).to_string(), "1073741825B");
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "GiB", "10GB", "1.5GiB", "10 GiB", "-1MiB", "10", "99999999999999999999GiB"] {
            assert!(text.parse::<Size>().is_err(), "{text:?}");
        }
    }
}

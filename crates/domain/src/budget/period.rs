//! The period of a ceiling, in UTC.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

const DAY_MS: i64 = 86_400_000;

/// The period of a ceiling, in UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BudgetPeriod {
    /// From midnight to midnight.
    Day,
    /// A calendar month.
    #[default]
    Month,
    /// All time.
    Total,
}

impl BudgetPeriod {
    /// The name in settings and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
            Self::Total => "total",
        }
    }

    /// After an amount: "$5.00 per day".
    pub fn per(self) -> &'static str {
        match self {
            Self::Day => "per day",
            Self::Month => "per month",
            Self::Total => "in total",
        }
    }

    /// When the current period began; `None` if it has no beginning.
    pub fn start(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Day => Some(midnight(now)),
            Self::Month => Some(first_of_month(now)),
            Self::Total => None,
        }
    }

    /// When the next period begins; `None` if there is none.
    pub fn end(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Day => Some(Timestamp::from_millis(midnight(now).as_millis().saturating_add(DAY_MS))),
            // 32 days after its first day is in the next month.
            Self::Month => {
                let later = first_of_month(now).as_millis().saturating_add(32 * DAY_MS);
                Some(first_of_month(Timestamp::from_millis(later)))
            }
            Self::Total => None,
        }
    }
}

fn midnight(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis().div_euclid(DAY_MS).saturating_mul(DAY_MS))
}

fn first_of_month(at: Timestamp) -> Timestamp {
    let Ok(instant) = jiff::Timestamp::from_millisecond(at.as_millis()) else { return midnight(at) };
    let day = instant.to_zoned(jiff::tz::TimeZone::UTC).day();
    Timestamp::from_millis(midnight(at).as_millis() - (i64::from(day) - 1) * DAY_MS)
}

//! The metrics of the last hour, for charts.

use domain::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The metrics of the last hour. A step without any change has no point: the values are those of the point before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsHistory {
    /// The shortest distance of two points.
    #[schema(minimum = 1)]
    pub step_seconds: u64,
    /// Oldest first, 360 at most. The last one is not over yet.
    pub points: Vec<MetricsPoint>,
}

/// The share of the seats in use, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utilisation {
    /// The mean over the time that is known.
    pub mean: u64,
    /// The highest.
    pub most: u64,
}

impl MetricsHistory {
    /// How much of the seats was in use, from the first point until now. `None` while nothing is known.
    #[must_use]
    pub fn utilisation(&self, now: Timestamp) -> Option<Utilisation> {
        let ends = self.points.iter().skip(1).map(|point| point.at).chain([now]);
        let mut weighed = (0_u64, 0_u64);
        let mut most = 0;
        for (point, end) in self.points.iter().zip(ends) {
            let percent = percent_in_use(point.seats_used, point.seats_total);
            let millis = u64::try_from(end.since(point.at).as_millis()).unwrap_or_default().max(1);
            weighed = (weighed.0 + percent * millis, weighed.1 + millis);
            most = most.max(percent);
        }
        (weighed.1 > 0).then(|| Utilisation { mean: weighed.0 / weighed.1, most })
    }
}

/// `38` for 3 of 8 seats.
#[must_use]
pub fn percent_in_use(used: u64, seats: u64) -> u64 {
    (used * 100 + seats / 2).checked_div(seats).unwrap_or(0)
}

/// The metrics of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsPoint {
    /// When the step began.
    pub at: Timestamp,
    /// Jobs that waited for a seat at its end.
    #[schema(minimum = 0)]
    pub queued: u64,
    /// Jobs that a factory held at its end.
    #[schema(minimum = 0)]
    pub building: u64,
    /// Seats in use at its end.
    #[schema(minimum = 0)]
    pub seats_used: u64,
    /// All seats at its end.
    #[schema(minimum = 0)]
    pub seats_total: u64,
    /// How long the jobs that were dispatched in it had waited; null if there were none, or for a token of some
    /// products.
    #[serde(default)]
    pub lag_ms: Option<LagQuantiles>,
    /// Store operations in it; 0 for a token of some products.
    pub store_ops: StoreOperationCounts,
    /// Leases granted in it.
    #[schema(minimum = 0)]
    pub claims: u64,
}

/// How long jobs waited, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LagQuantiles {
    /// The median.
    #[schema(minimum = 0)]
    pub p50: u64,
    /// All but one in a hundred.
    #[schema(minimum = 0)]
    pub p99: u64,
}

/// Store operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreOperationCounts {
    /// Reads.
    #[schema(minimum = 0)]
    pub read: u64,
    /// Transactions.
    #[schema(minimum = 0)]
    pub write: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    // [D4]
    #[test]
    fn utilisation_is_weighed_by_time() {
        let point = |seconds: i64, seats_used: u64| MetricsPoint {
            at: Timestamp::from_millis(seconds * 1_000),
            queued: 0,
            building: 0,
            seats_used,
            seats_total: 8,
            lag_ms: None,
            store_ops: StoreOperationCounts::default(),
            claims: 0,
        };
        let of = |points: Vec<MetricsPoint>| {
            MetricsHistory { step_seconds: 10, points }.utilisation(Timestamp::from_millis(100_000))
        };

        assert_eq!(of(vec![]), None);
        assert_eq!(of(vec![point(0, 0), point(75, 8)]), Some(Utilisation { mean: 25, most: 100 }));
        assert_eq!((percent_in_use(3, 8), percent_in_use(0, 0)), (38, 0));
    }
}

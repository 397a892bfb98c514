//! Times on the screen. Only running things have an age; everything else has a time of day, so that an idle screen stays
//! as it is.

use std::time::Duration;

use domain::Timestamp;

/// How long something has been running, in minutes at the finest.
pub(crate) fn running(span: Duration) -> String {
    match span.as_secs() / 60 {
        0 => "<1m".to_owned(),
        minutes @ 1..60 => format!("{minutes}m"),
        minutes @ 60..1_440 => format!("{}h{:02}", minutes / 60, minutes % 60),
        minutes => format!("{}d", minutes / 1_440),
    }
}

/// A time of today by its minute, any other by its day. In UTC.
pub(crate) fn since(now: Timestamp, at: Timestamp) -> String {
    let (today, text) = (now.to_string(), at.to_string());
    let (Some(day), Some(this)) = (text.get(..10), today.get(..10)) else { return text };
    if day == this {
        return text.get(11..16).unwrap_or_default().to_owned();
    }
    let month = match text.get(5..7) {
        Some("01") => "Jan",
        Some("02") => "Feb",
        Some("03") => "Mar",
        Some("04") => "Apr",
        Some("05") => "May",
        Some("06") => "Jun",
        Some("07") => "Jul",
        Some("08") => "Aug",
        Some("09") => "Sep",
        Some("10") => "Oct",
        Some("11") => "Nov",
        _ => "Dec",
    };
    format!("{month} {}", text.get(8..10).unwrap_or_default())
}

/// The time of day to the second, in UTC.
pub(crate) fn clock_time(at: Timestamp) -> String {
    let text = at.to_string();
    text.get(11..19).map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_coarse_and_times_are_of_the_day() {
        let minutes = |minutes: u64| running(Duration::from_secs(minutes * 60));
        let noon = Timestamp::from_millis(1_769_860_800_123);

        assert_eq!([minutes(0), minutes(12), minutes(75), minutes(3_000)], ["<1m", "12m", "1h15", "2d"]);
        assert_eq!(since(noon, noon.before(Duration::from_secs(3_600))), "11:00");
        assert_eq!(since(noon, noon.before(Duration::from_secs(86_400))), "Jan 30");
        assert_eq!(clock_time(noon), "12:00:00");
    }
}

//! Times as people read them.

use std::time::Duration;

use domain::Timestamp;

/// How long ago something was, in its largest unit.
pub(crate) fn age(now: Timestamp, then: Timestamp) -> String {
    span(now.since(then))
}

/// A span in its largest unit.
pub(crate) fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// The time of day, in UTC and to the second.
pub(crate) fn clock_time(at: Timestamp) -> String {
    let text = at.to_string();
    text.get(11..19).map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let ago = |seconds: i64| age(Timestamp::from_millis(seconds * 1_000), Timestamp::from_millis(0));

        assert_eq!([ago(5), ago(119), ago(7_200), ago(200_000)], ["5s", "1m", "2h", "2d"]);
        assert_eq!(clock_time(Timestamp::from_millis(1_769_860_800_123)), "12:00:00");
    }
}

//! Parses when a usage window resets, in the formats of all engines.

use std::time::Duration;

use domain::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

/// The reset time in a text about an exhausted window. Clock times are in UTC: engines run with `TZ=UTC`.
pub(super) fn reset_time(text: &str, now: Timestamp) -> Option<Timestamp> {
    let text = text.to_lowercase();
    let text = text.as_str();
    let absolute = ["resets_at", "resetsat", "limit reached|"].iter().find_map(|key| number_after(text, key));
    if let Some(at) = absolute {
        return moment(at);
    }
    if let Some(seconds) = number_after(text, "resets_in_seconds") {
        return Some(now.after(Duration::from_secs(seconds)));
    }
    let said = after_any(text, &["try again in ", "resets in ", "retry in "]).and_then(span);
    if let Some(span) = said {
        return Some(now.after(span));
    }
    clock_time(after_any(text, &["try again at ", "resets at ", "resets ", "try again after "])?, now)
}

/// Seconds since 1970, or milliseconds when there are too many of them.
fn moment(number: u64) -> Option<Timestamp> {
    let number = i64::try_from(number).ok()?;
    let millis = if number > 100_000_000_000 { number } else { number.checked_mul(1_000)? };
    Some(Timestamp::from_millis(millis))
}

/// The number after a key, whatever quotes and colons are between them.
fn number_after(text: &str, key: &str) -> Option<u64> {
    let rest = after_any(text, &[key])?;
    let rest = rest.trim_start_matches(['"', '\'', ':', '=', ' ', '\\']);
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

fn after_any<'a>(text: &'a str, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| text.find(key).map(|at| &text[at + key.len()..]))
}

/// `3 days 4 hours 5 minutes`, `2h 5m`, `20s`.
fn span(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim_start();
    let mut parts = 0;
    loop {
        rest = rest.trim_start_matches([' ', ',']).trim_start_matches("and ");
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let Ok(number) = rest[..digits].parse::<u32>() else { break };
        let unit_and_more = rest[digits..].trim_start();
        let letters = unit_and_more.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit_and_more.len());
        let seconds = match unit_and_more.get(..letters)? {
            "d" | "day" | "days" => 86_400,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            _ => break,
        };
        total = total.saturating_add(Duration::from_secs(seconds).saturating_mul(number));
        rest = &unit_and_more[letters..];
        parts += 1;
    }
    (parts > 0).then_some(total)
}

/// A time of today that is at most this long ago has passed: the window is open, and does not wait until tomorrow.
/// Engines name the day where they do not mean today.
const PASSED_TODAY_MAX: Duration = Duration::from_hours(12);

/// The same for a time of yesterday evening, read after midnight.
const PASSED_YESTERDAY_MAX: Duration = Duration::from_hours(1);

/// `4:42 am`, `3pm (utc)`, `dec 3rd, 2026 3:15 pm`, `oct 9 at 3pm`: the next such time, or the last one if it has just
/// passed.
fn clock_time(text: &str, now: Timestamp) -> Option<Timestamp> {
    let mut words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()).peekable();
    let today = at(now)?.date();
    let mut date = None;
    if let Some(month) = words.peek().and_then(|word| month(word)) {
        words.next();
        let day = words.next()?.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()?;
        let year = words.peek().and_then(|word| word.parse::<i16>().ok()).filter(|year| *year > 2000);
        if year.is_some() {
            words.next();
        }
        date = Some((Date::new(year.unwrap_or(today.year()), month, day).ok()?, year));
    }
    if words.peek() == Some(&"at") {
        words.next();
    }
    let first = words.next()?;
    let time = time(first, words.next().unwrap_or_default())?;
    let found = |date: Date| timestamp(date.to_datetime(time));
    let within =
        |date: Option<Date>, passed_max: Duration| date.and_then(found).filter(|at| now.since(*at) <= passed_max);
    match date {
        Some((date, Some(_))) => found(date),
        Some((date, None)) => {
            let next_year = Date::new(date.year() + 1, date.month(), date.day()).ok();
            within(Some(date), PASSED_TODAY_MAX).or_else(|| next_year.and_then(found))
        }
        None => within(today.yesterday().ok(), PASSED_YESTERDAY_MAX)
            .or_else(|| within(Some(today), PASSED_TODAY_MAX))
            .or_else(|| today.tomorrow().ok().and_then(found)),
    }
}

fn month(word: &str) -> Option<i8> {
    const NAMES: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let number = NAMES.iter().position(|name| word.starts_with(name))?;
    i8::try_from(number + 1).ok()
}

/// `4:42am`, or `4:42` and `am`, or `16:42`.
fn time(word: &str, next: &str) -> Option<Time> {
    let plain = |word: &str| word.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    let letters = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
    let (clock, half) = word.split_at(letters);
    let half = if half.is_empty() { plain(next) } else { plain(half) };
    let mut numbers = clock.split(':').map(|part| part.trim_end_matches('.').parse::<i8>());
    let hour = numbers.next()?.ok()?;
    let minute = numbers.next().unwrap_or(Ok(0)).ok()?;
    let hour = match half.as_str() {
        "am" | "pm" if !(1..=12).contains(&hour) => return None,
        "am" => hour % 12,
        "pm" => hour % 12 + 12,
        _ if clock.contains(':') => hour,
        _ => return None,
    };
    Time::new(hour, minute, 0, 0).ok()
}

fn at(now: Timestamp) -> Option<DateTime> {
    let now = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?;
    Some(TimeZone::UTC.to_datetime(now))
}

fn timestamp(at: DateTime) -> Option<Timestamp> {
    let at = TimeZone::UTC.to_timestamp(at).ok()?;
    Some(Timestamp::from_millis(at.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(text: &str) -> Option<String> {
        let now: Timestamp = "2026-11-16T02:42:10Z".parse().unwrap();
        reset_time(text, now).map(|at| at.to_string())
    }

    // [F2]
    #[test]
    fn every_way_to_say_when_is_understood() {
        let table = [
            ("try again at 4:42 AM.", "2026-11-16T04:42:00.000Z"),
            ("You've hit your session limit · resets 4:42am (UTC)", "2026-11-16T04:42:00.000Z"),
            ("5-hour limit reached ∙ resets 3pm", "2026-11-16T15:00:00.000Z"),
            ("resets 2:42am", "2026-11-16T02:42:00.000Z"),
            ("resets at 23:15", "2026-11-16T23:15:00.000Z"),
            ("try again at Dec 3rd, 2026 3:15 PM.", "2026-12-03T15:15:00.000Z"),
            ("resets Jan 2, 12am (UTC)", "2027-01-02T00:00:00.000Z"),
            ("try again in 3 days 4 hours 5 minutes.", "2026-11-19T06:47:10.000Z"),
            ("Please try again in 20s", "2026-11-16T02:42:30.000Z"),
            ("Claude AI usage limit reached|1794804129", "2026-11-16T04:42:09.000Z"),
            ("{\"type\":\"usage_limit_reached\",\"resets_at\":1794804129}", "2026-11-16T04:42:09.000Z"),
            ("{\\\"resets_in_seconds\\\": 90}", "2026-11-16T02:43:40.000Z"),
        ];

        for (text, at) in table {
            assert_eq!(says(text).as_deref(), Some(at), "{text}");
        }
    }

    #[test]
    fn a_clock_time_of_the_last_hours_has_passed() {
        let table = [
            ("2026-11-16T07:45:59Z", "7:46 AM", "2026-11-16T07:46:00.000Z"),
            ("2026-11-16T07:56:01Z", "7:46 AM", "2026-11-16T07:46:00.000Z"),
            ("2026-11-16T19:45:00Z", "7:46 AM", "2026-11-16T07:46:00.000Z"),
            ("2026-11-16T19:47:00Z", "7:46 AM", "2026-11-17T07:46:00.000Z"),
            ("2026-11-16T00:03:00Z", "11:58 PM", "2026-11-15T23:58:00.000Z"),
            ("2026-11-16T02:00:00Z", "11:58 PM", "2026-11-16T23:58:00.000Z"),
            ("2026-11-16T17:00:00Z", "Nov 16 at 3pm", "2026-11-16T15:00:00.000Z"),
        ];

        for (now, named, at) in table {
            let found = reset_time(&format!("try again at {named}."), now.parse().unwrap());
            assert_eq!(found.map(|at| at.to_string()).as_deref(), Some(at), "{named} at {now}");
        }
    }

    #[test]
    fn what_names_no_time_gives_none() {
        for text in ["", "try again later", "resets soon", "try again at noon", "resets 99pm", "try again in a while"] {
            assert_eq!(says(text), None, "{text}");
        }
    }
}

//! Reading a stream of JSON, one object a line, from a program that may print anything.

use serde_json::Value;

use super::EngineEvent;
use crate::process::{LINE_BYTES_MAX, Line, Source};

/// The objects of one stream.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// Whether the pieces of a line that is too long are passing by.
    is_torn: bool,
}

/// What a line holds.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// An object of the stream.
    Object(Value),
    /// A line that is for people.
    Text(String),
    /// Nothing to speak of.
    Nothing,
}

/// A text that somebody keeps is cut to this: the log has the rest.
pub(super) const KEPT_CHARS_MAX: usize = 2_000;

impl Objects {
    pub(super) fn read(&mut self, line: &Line) -> Heard {
        let text = line.text.trim();
        if text.is_empty() {
            return Heard::Nothing;
        }
        if line.source == Source::Err {
            return Heard::Text(line.text.clone());
        }
        let was_torn = std::mem::replace(&mut self.is_torn, line.text.len() >= LINE_BYTES_MAX);
        if text.starts_with('{')
            && let Ok(object) = serde_json::from_str(text)
        {
            // The middle or the end of a torn line is never a whole object: its braces do not match.
            return Heard::Object(object);
        }
        if was_torn || self.is_torn { Heard::Nothing } else { Heard::Text(line.text.clone()) }
    }
}

/// The events of a line that is for people.
pub(super) fn for_people(text: &str) -> Vec<EngineEvent> {
    vec![EngineEvent::Output { text: text.to_owned() }]
}

/// A text below an object, cut to what somebody keeps.
pub(super) fn text_at(object: &Value, pointer: &str) -> Option<String> {
    let text = object.pointer(pointer)?.as_str()?;
    Some(text.chars().take(KEPT_CHARS_MAX).collect())
}

/// A number below an object, or 0.
pub(super) fn number_at(object: &Value, pointer: &str) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// A text on one line, without anything that could harm a terminal, and not too long.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || !domain::is_harmless(c)).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > 4 * KEPT_CHARS_MAX {
            break;
        }
    }
    line.chars().take(KEPT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(text: &str) -> Line {
        Line { source: Source::Out, text: text.to_owned() }
    }

    #[test]
    fn a_line_that_came_in_pieces_is_passed_over_and_the_next_one_is_read() {
        let mut objects = Objects::default();
        let huge = format!("{{\"type\":\"user\",\"text\":\"{}", "x".repeat(LINE_BYTES_MAX));

        let heard: Vec<Heard> =
            [huge.as_str(), "yyy\"}", "{\"a\":1}", "warning"].map(|text| objects.read(&out(text))).into();

        let expected = [
            Heard::Nothing,
            Heard::Nothing,
            Heard::Object(serde_json::json!({"a": 1})),
            Heard::Text("warning".to_owned()),
        ];
        assert_eq!(heard, expected);
    }

    #[test]
    fn what_is_no_object_is_for_people() {
        let mut objects = Objects::default();

        let deep = "[".repeat(100_000);
        for text in ["{\"type\":", "null", "\u{fffd}\u{fffd}\0", &deep, &format!("{{\"a\":{deep}")] {
            assert_eq!(objects.read(&out(text)), Heard::Text(text.to_owned()));
        }
        let error = Line { source: Source::Err, text: "{\"type\":\"result\"}".to_owned() };
        assert_eq!(objects.read(&error), Heard::Text(error.text.clone()), "only standard output is the stream");
    }

    #[test]
    fn a_text_on_one_line_holds_no_escape() {
        assert_eq!(one_line("a\u{1b}[2J\n\n  b\tc\u{202e}"), "a [2J b c");
    }
}

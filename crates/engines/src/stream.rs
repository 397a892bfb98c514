//! Reads a stream of JSON, one object a line, from a program that may print anything.

use sandbox::{Line, Source};
use serde_json::Value;

use super::EngineEvent;

/// The content of a line.
#[derive(Debug, PartialEq)]
pub(super) enum StreamLine {
    /// An object of the stream.
    Object(Value),
    /// A line for people.
    Text(String),
    /// Nothing relevant.
    Nothing,
}

/// A stored text is truncated to this: the log has the rest.
pub(super) const KEPT_CHARS_MAX: usize = 2_000;

/// Reads a line of a stream. Only standard output is one.
pub(super) fn read(line: &Line) -> StreamLine {
    let text = line.text.trim();
    if text.is_empty() {
        return StreamLine::Nothing;
    }
    if line.source == Source::Out
        && text.starts_with('{')
        && let Ok(object) = serde_json::from_str(text)
    {
        return StreamLine::Object(object);
    }
    StreamLine::Text(line.text.clone())
}

/// The events of a line for people.
pub(super) fn for_people(text: &str) -> Vec<EngineEvent> {
    vec![EngineEvent::Output { text: text.to_owned() }]
}

/// A text below an object, truncated for storage.
pub(super) fn text_at(object: &Value, pointer: &str) -> Option<String> {
    let text = object.pointer(pointer)?.as_str()?;
    Some(text.chars().take(KEPT_CHARS_MAX).collect())
}

/// A number below an object, or 0.
pub(super) fn number_at(object: &Value, pointer: &str) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// A text on one line, without terminal escapes, and truncated.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || !domain::is_terminal_safe(c)).filter(|word| !word.is_empty())
    {
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
    fn what_is_no_object_is_for_people() {
        let deep = "[".repeat(100_000);
        for text in ["{\"type\":", "null", "\u{fffd}\u{fffd}\0", &deep, &format!("{{\"a\":{deep}")] {
            assert_eq!(read(&out(text)), StreamLine::Text(text.to_owned()));
        }
        let error = Line { source: Source::Err, text: "{\"type\":\"result\"}".to_owned() };
        assert_eq!(read(&error), StreamLine::Text(error.text.clone()), "only standard output is the stream");
        assert_eq!(read(&out(" {\"a\":1}")), StreamLine::Object(serde_json::json!({"a": 1})));
    }

    // [attack: terminal escapes]
    #[test]
    fn a_text_on_one_line_holds_no_escape() {
        assert_eq!(one_line("a\u{1b}[2J\n\n  b\tc\u{202e}"), "a [2J b c");
    }
}

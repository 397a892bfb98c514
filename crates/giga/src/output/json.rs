//! JSON that a terminal can be shown: the same document, with dangerous characters spelled out.

use std::fmt::Write as _;

/// The same JSON with every character that could confuse a terminal as an escape.
pub(super) fn harmless(json: &str) -> String {
    if json.chars().all(domain::is_terminal_safe) {
        return json.to_owned();
    }
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if domain::is_terminal_safe(c) {
            safe.push(c);
        } else {
            // Such characters stand in strings only, and all of them fit into four digits.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spelled_out_means_the_same() {
        let value = serde_json::json!({"title": "a\u{9b}2J\u{202e}\u{7f}b"});

        let safe = harmless(&value.to_string());

        assert_eq!(safe, r#"{"title":"a\u009b2J\u202e\u007fb"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }
}

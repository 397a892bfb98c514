//! The boundary to the coordinator: no text passes it that could move the cursor, change the direction or start an escape
//! sequence.

use domain::{clean_line, clean_lines};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a value from JSON whose texts were cleaned first.
pub(crate) fn decode<T: DeserializeOwned>(json: &str) -> Result<T, serde_json::Error> {
    let mut value = serde_json::from_str(json)?;
    clean(&mut value);
    serde_json::from_value(value)
}

/// Cleans every text of a document. Line breaks stay; names of members become one line.
fn clean(value: &mut Value) {
    match value {
        Value::String(text) => {
            if !text.chars().all(domain::is_terminal_safe) {
                *text = clean_lines(text);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(members) => {
            let unsafe_names: Vec<String> =
                members.keys().filter(|name| !name.chars().all(domain::is_terminal_safe)).cloned().collect();
            for name in unsafe_names {
                if let Some(member) = members.remove(&name) {
                    members.insert(clean_line(&name), member);
                }
            }
            members.values_mut().for_each(clean);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    // [attack: terminal escapes]
    #[test]
    fn no_text_of_a_document_keeps_an_escape() {
        let json = r#"{"a\u001b[31m": ["x\u001b]0;t\u0007y", "one\ntwo\u202e", "\u009b2Jz"]}"#;

        let read: BTreeMap<String, Vec<String>> = decode(json).unwrap();

        let expected = ["xy".to_owned(), "one\ntwo".to_owned(), "z".to_owned()];
        assert_eq!(read, BTreeMap::from([("a".to_owned(), expected.to_vec())]));
    }
}

//! YAML as JSON values, with anchors, aliases and merge keys.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};

/// Every document of a text.
pub(super) fn documents(text: &str) -> Vec<Value> {
    let mut reader = Reader { parser: Parser::new_from_str(text), anchors: BTreeMap::new() };
    let mut documents = Vec::new();
    loop {
        match reader.next() {
            Event::StreamEnd => return documents,
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd => {}
            event => documents.push(reader.value(event)),
        }
    }
}

struct Reader<'y> {
    parser: Parser<'y, StrInput<'y>>,
    anchors: BTreeMap<usize, Value>,
}

impl<'y> Reader<'y> {
    fn next(&mut self) -> Event<'y> {
        self.parser.next_event().unwrap().unwrap().0
    }

    fn value(&mut self, event: Event<'y>) -> Value {
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, _) => (scalar(&text, style), anchor),
            Event::SequenceStart(anchor, _) => (Value::Array(self.items()), anchor),
            Event::MappingStart(anchor, _) => (Value::Object(self.entries()), anchor),
            Event::Alias(anchor) => (self.anchors[&anchor].clone(), 0),
            event => panic!("a value was expected, not {event:?}"),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        value
    }

    fn items(&mut self) -> Vec<Value> {
        let mut items = Vec::new();
        loop {
            match self.next() {
                Event::SequenceEnd => return items,
                event => items.push(self.value(event)),
            }
        }
    }

    fn entries(&mut self) -> Map<String, Value> {
        let (mut entries, mut merged) = (Map::new(), Map::new());
        loop {
            let key = match self.next() {
                Event::MappingEnd => break,
                event => self.value(event),
            };
            let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
            let event = self.next();
            match (key.as_str(), self.value(event)) {
                ("<<", Value::Object(more)) => merged.extend(more),
                (_, value) => assert!(entries.insert(key.clone(), value).is_none(), "`{key}` is there twice"),
            }
        }
        merged.extend(entries);
        merged
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    match text {
        _ if style != ScalarStyle::Plain => Value::from(text),
        "" | "~" | "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from),
    }
}

#[test]
fn yaml_is_read_with_its_anchors_and_merge_keys() {
    let text = "base: &base {a: 1, b: [x, \"2\"]}\nmore:\n  <<: *base\n  a: true\n---\nnone:\n";

    let read = documents(text);

    let wanted = [
        serde_json::json!({ "base": { "a": 1, "b": ["x", "2"] }, "more": { "a": true, "b": ["x", "2"] } }),
        serde_json::json!({ "none": null }),
    ];
    assert_eq!(read, wanted);
}

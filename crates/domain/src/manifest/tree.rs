//! A YAML tree with line numbers.
//!
//! A subset of YAML: no anchors, aliases or tags, no duplicate keys, one document, bounded size. Scalars keep their
//! text; the key decides how it is interpreted.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, StrInput};

use crate::names::{escape_for_terminal, terminal_chars};

use super::finding::Finding;
use super::path::Path;

/// Known keys nest two levels deep; unknown ones may nest deeper.
const DEPTH_MAX: usize = 16;
/// Four times the total maximum of all known lists.
const NODES_MAX: usize = 10_000;

/// The front matter as a tree, with syntax findings.
pub(super) struct Tree {
    /// The top level; `None` if the text cannot be parsed.
    pub(super) entries: Option<Vec<Entry>>,
    pub(super) findings: Vec<Finding>,
}

/// One `key: value`.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) node: Node,
}

/// A value and the line reported for it: its key's line, or its own in a list.
#[derive(Debug, PartialEq)]
pub(super) struct Node {
    pub(super) line: u32,
    pub(super) value: Value,
}

/// The kind of a value.
#[derive(Debug, PartialEq)]
pub(super) enum Value {
    /// An unquoted scalar: text, a number, a boolean or null.
    Plain(String),
    /// A quoted or block scalar: always text.
    Quoted(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// A value with a reported error: later checks skip it.
    Refused,
}

impl Tree {
    /// Parses the text between the fences. `lines_before` lines of the file precede it.
    pub(super) fn read(yaml: &str, lines_before: u32) -> Self {
        let parser = Parser::new_from_str(yaml);
        let mut reader = Reader { parser, lines_before, nodes: 0, path: Path::default(), findings: Vec::new() };
        let entries = reader.document().map_err(|broken| reader.findings.push(broken)).ok();
        Self { entries, findings: reader.findings }
    }
}

struct Reader<'y> {
    parser: Parser<'y, StrInput<'y>>,
    lines_before: u32,
    nodes: usize,
    path: Path,
    findings: Vec<Finding>,
}

impl<'y> Reader<'y> {
    /// Parses the top level. Recoverable errors go to `findings`.
    fn document(&mut self) -> Result<Vec<Entry>, Finding> {
        let (mut event, mut line) = self.next()?;
        while matches!(event, Event::StreamStart | Event::DocumentStart(_)) {
            (event, line) = self.next()?;
        }
        if event == Event::StreamEnd {
            return Ok(Vec::new());
        }
        let root = self.node(event, line, 0)?;
        self.end()?;
        match root.value {
            Value::Map(entries) => Ok(entries),
            Value::Refused => Ok(Vec::new()),
            other => {
                Err(Finding::error(root.line, None, format!("expected `key: value`, found {}", other.described())))
            }
        }
    }

    fn end(&mut self) -> Result<(), Finding> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentStart(_), line) => {
                    return Err(Finding::error(line, None, "a second YAML document begins: the front matter is one"));
                }
                _ => {}
            }
        }
    }

    fn node(&mut self, event: Event<'y>, line: u32, depth: usize) -> Result<Node, Finding> {
        self.count(line, depth)?;
        let value = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_extras(line, anchor, tag.is_some());
                match style {
                    ScalarStyle::Plain => Value::Plain(text.into_owned()),
                    _ => Value::Quoted(text.into_owned()),
                }
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_extras(line, anchor, tag.is_some());
                Value::List(self.items(depth + 1)?)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_extras(line, anchor, tag.is_some());
                Value::Map(self.entries(depth + 1)?)
            }
            Event::Alias(_) => {
                self.refuse(line, "aliases (`*name`) are not supported: write the value out");
                Value::Refused
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => return Err(self.broken(line, "expected a value")),
        };
        Ok(Node { line, value })
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Node>, Finding> {
        let mut items = Vec::new();
        loop {
            let (event, line) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(items);
            }
            let mark = self.path.enter_item(items.len());
            items.push(self.node(event, line, depth)?);
            self.path.leave(mark);
        }
    }

    fn entries(&mut self, depth: usize) -> Result<Vec<Entry>, Finding> {
        let mut entries = Vec::new();
        let mut seen_on: HashMap<String, u32> = HashMap::new();
        loop {
            let (event, line) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(entries);
            }
            let key = self.node(event, line, depth)?.value;
            let mark = self.path.enter_key(key.text().unwrap_or_default());
            let (event, value_line) = self.next()?;
            let value = self.node(event, value_line, depth)?.value;
            match key {
                Value::Plain(key) | Value::Quoted(key) if !key.is_empty() => match seen_on.get(&key) {
                    Some(first) => self.refuse(line, format!("the key is already on line {first}")),
                    None => {
                        seen_on.insert(key.clone(), line);
                        entries.push(Entry { key, node: Node { line, value } });
                    }
                },
                Value::Refused => {}
                _ => self.refuse(line, "a key must be a text"),
            }
            self.path.leave(mark);
        }
    }

    fn next(&mut self) -> Result<(Event<'y>, u32), Finding> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, self.line(span.start))),
            Some(Err(error)) => Err(self.unreadable(&error)),
            None => Ok((Event::StreamEnd, self.lines_before)),
        }
    }

    fn count(&mut self, line: u32, depth: usize) -> Result<(), Finding> {
        self.nodes += 1;
        if depth > DEPTH_MAX {
            return Err(Finding::error(line, None, format!("nested more than {DEPTH_MAX} levels deep")));
        }
        if self.nodes > NODES_MAX {
            return Err(Finding::error(line, None, format!("more than {NODES_MAX} keys and values")));
        }
        Ok(())
    }

    fn refuse_extras(&mut self, line: u32, anchor: usize, tagged: bool) {
        // The parser counts anchors from 1; 0 is none.
        if anchor > 0 {
            self.refuse(line, "anchors (`&name`) are not supported: remove it");
        }
        if tagged {
            self.refuse(line, "tags (`!name`) are not supported: remove it");
        }
    }

    fn refuse(&mut self, line: u32, message: impl Into<String>) {
        self.findings.push(Finding::error(line, self.path.key(), message));
    }

    fn unreadable(&self, error: &ScanError) -> Finding {
        let mut info: String = terminal_chars(error.info()).collect();
        // The most common mistake: `title: Fix: the bug`.
        if info.starts_with("mapping values are not allowed") {
            info.push_str("; quote a text that contains `: `");
        }
        self.broken(self.line(*error.marker()), &info)
    }

    fn broken(&self, line: u32, info: &str) -> Finding {
        Finding::error(line, None, format!("not valid YAML: {info}"))
    }

    fn line(&self, marker: Marker) -> u32 {
        u32::try_from(marker.line()).unwrap_or(u32::MAX).saturating_add(self.lines_before)
    }
}

impl Value {
    /// The text of a scalar, quoted or not.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Plain(text) | Self::Quoted(text) => Some(text),
            Self::List(_) | Self::Map(_) | Self::Refused => None,
        }
    }

    /// Whether YAML reads the value as a number or a boolean.
    pub(super) fn is_number_or_boolean(&self) -> bool {
        matches!(self, Self::Plain(text) if is_bool(text) || number(text).is_some())
    }

    /// Description of the value for an "expected … found" message.
    pub(super) fn described(&self) -> String {
        match self {
            Self::Plain(text) if text.is_empty() => "nothing".to_owned(),
            Self::Plain(text) if is_null(text) || is_bool(text) => text.clone(),
            Self::Plain(text) if number(text).is_some() => format!("the number {}", escape_for_terminal(text)),
            Self::Plain(text) | Self::Quoted(text) => format!("the text \"{}\"", escape_for_terminal(text)),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a mapping".to_owned(),
            Self::Refused => "something refused".to_owned(),
        }
    }

    /// The value as JSON, for unknown keys.
    pub(super) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match self {
            Self::Plain(text) if text.is_empty() || is_null(text) => Json::Null,
            Self::Plain(text) if is_bool(text) => Json::Bool(text == "true"),
            Self::Plain(text) => json_number(text).map_or_else(|| Json::String(text.clone()), Json::Number),
            Self::Quoted(text) => Json::String(text.clone()),
            Self::List(items) => items.iter().map(|item| item.value.to_json()).collect(),
            Self::Map(entries) => {
                Json::Object(entries.iter().map(|entry| (entry.key.clone(), entry.node.value.to_json())).collect())
            }
            Self::Refused => Json::Null,
        }
    }
}

/// Whether the scalar is a null.
pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "~" | "null" | "Null" | "NULL")
}

fn is_bool(text: &str) -> bool {
    matches!(text, "true" | "false")
}

/// A decimal number. Rust also parses words such as `inf`; they stay text.
pub(super) fn number(text: &str) -> Option<f64> {
    let decimal = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if decimal { text.parse().ok() } else { None }
}

/// A number that JSON represents exactly; any other stays text.
fn json_number(text: &str) -> Option<serde_json::Number> {
    let number: serde_json::Number = text.parse().ok()?;
    let exact = !number.is_f64() || text.contains(['.', 'e', 'E']);
    exact.then_some(number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn json_of(yaml: &str) -> serde_json::Value {
        let tree = Tree::read(yaml, 0);
        assert_eq!(tree.findings, []);
        Value::Map(tree.entries.unwrap()).to_json()
    }

    fn findings_of(yaml: &str) -> Vec<String> {
        Tree::read(yaml, 0).findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unknown_values_follow_yaml_1_2() {
        assert_eq!(
            json_of("a: no\nb: true\nc: 1.5\nd: '3'\ne: [1, x, ~]\nf: {g: -2}\nh: 012\ni:\nj: 2024-01-31\nk: .inf\n"),
            json!({
                "a": "no", "b": true, "c": 1.5, "d": "3", "e": [1, "x", null], "f": {"g": -2}, "h": "012", "i": null,
                "j": "2024-01-31", "k": ".inf"
            })
        );
    }

    #[test]
    fn a_number_too_long_for_json_stays_text() {
        assert_eq!(json_of("a: 123456789012345678901234567890\n"), json!({"a": "123456789012345678901234567890"}));
        assert_eq!(json_of("a: 18446744073709551615\n"), json!({"a": u64::MAX}));
    }

    #[test]
    fn comments_only_are_empty_front_matter() {
        assert_eq!(json_of("# nothing\n\n"), json!({}));
    }

    #[test]
    fn a_billion_laughs_attack_is_rejected() {
        let mut yaml = "a0: &a0 [x, x]\n".to_owned();
        for n in 1..40 {
            yaml.push_str(&format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}, *a{0}]\n", n - 1));
        }

        let tree = Tree::read(&yaml, 0);

        assert_eq!(tree.findings.len(), 40 + 39 * 4);
        assert_eq!(tree.entries.unwrap().len(), 40);
    }

    #[test]
    fn depth_is_bounded() {
        let deepest = format!("a: {}1{}\n", "[".repeat(DEPTH_MAX - 1), "]".repeat(DEPTH_MAX - 1));
        let deeper = format!("a: {}1{}\n", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));

        assert_eq!(findings_of(&deepest), [""; 0]);
        assert_eq!(findings_of(&deeper), ["line 1: nested more than 16 levels deep"]);
    }

    #[test]
    fn deep_nesting_is_rejected_cheaply() {
        for opening in ["[", "{", "[{", "- ", "? ", "- ? ", "a: [", "{a: ", "-\n ", "&a ", "!a ", "a: b\n ", "\"", "'"]
        {
            let hostile = format!("a: [{}", opening.repeat(60_000 / opening.len()));

            assert_eq!(Tree::read(&hostile, 0).entries, None, "{opening:?}");
            assert!(!Tree::read(&hostile[4..], 0).findings.is_empty(), "{opening:?}");
        }
    }

    // [attack: DAG bombs]
    #[test]
    fn the_number_of_nodes_is_bounded() {
        let yaml = format!("a: [{}]\n", "x, ".repeat(NODES_MAX));

        assert_eq!(findings_of(&yaml), ["line 1: more than 10000 keys and values"]);
    }
}

//! Decoders for each value type. The key's type decides how a scalar is interpreted, never the text.

use std::fmt::Display;
use std::str::FromStr;

use crate::artifact_glob::ArtifactGlob;
use crate::names::{NameError, escape_for_terminal, is_terminal_safe};
use crate::spec::Dep;

use super::super::duration;
use super::super::finding::Finding;
use super::super::tree::{Node, Value, is_null, number};
use super::Decoder;

/// Control characters allowed in multi-line text.
const BREAKS: [char; 2] = ['\n', '\t'];

/// The longest glob.
pub(in super::super) const GLOB_CHARS_MAX: usize = 200;

impl Decoder {
    /// Reports an error at the current key.
    pub(in super::super) fn refuse(&mut self, line: u32, message: impl Into<String>) {
        self.findings.push(Finding::error(line, self.path.key(), message));
    }

    /// Reports a type mismatch, except for a node that already has an error.
    pub(in super::super) fn expected(&mut self, what: &str, node: &Node) {
        if node.value != Value::Refused {
            self.refuse(node.line, format!("expected {what}, found {}", node.value.described()));
        }
    }

    /// Any text, unchanged.
    pub(in super::super) fn text<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        match &node.value {
            Value::Quoted(text) => return Some(text),
            Value::Plain(text) if !text.is_empty() && !is_null(text) => return Some(text),
            Value::Map(_) => {
                self.refuse(node.line, "expected a text, found a mapping: quote the text if the colon belongs to it");
            }
            Value::Plain(_) | Value::List(_) | Value::Refused => self.expected("a text", node),
        }
        None
    }

    /// One line of text, trimmed.
    pub(in super::super) fn line(&mut self, node: &Node, chars_max: usize) -> Option<String> {
        let text = self.text(node)?.trim();
        let length = text.chars().count();
        let problem = if text.is_empty() {
            "is empty".to_owned()
        } else if length > chars_max {
            format!("has {length} characters; at most {chars_max} are allowed")
        } else if text.contains(BREAKS) {
            "must be on one line, without tabs".to_owned()
        } else if !text.chars().all(is_terminal_safe) {
            "contains a control character".to_owned()
        } else {
            return Some(text.to_owned());
        };
        self.refuse(node.line, problem);
        None
    }

    /// Text for a command line argument: one word that cannot be parsed as an option.
    pub(in super::super) fn argument(&mut self, node: &Node, chars_max: usize) -> Option<String> {
        let text = self.line(node, chars_max)?;
        if text.starts_with('-') {
            self.refuse(node.line, "must not begin with `-`");
            return None;
        }
        if text.contains(char::is_whitespace) {
            self.refuse(node.line, "must be one word, without spaces");
            return None;
        }
        Some(text)
    }

    /// A command of one or more lines. A bare number or boolean is a mistake: `verify: true` would check nothing.
    pub(in super::super) fn command(&mut self, node: &Node, what: &str) -> Option<String> {
        if node.value.is_number_or_boolean() {
            let found = node.value.described();
            self.refuse(node.line, format!("expected {what}, found {found}: quote it if it is a command"));
            return None;
        }
        let text = self.text(node)?.trim();
        if text.is_empty() {
            self.refuse(node.line, "is empty");
            return None;
        }
        if !text.chars().all(|c| is_terminal_safe(c) || BREAKS.contains(&c)) {
            self.refuse(node.line, "contains a control character");
            return None;
        }
        Some(text.to_owned())
    }

    /// A glob of files below the worktree.
    pub(in super::super) fn glob(&mut self, node: &Node) -> Option<String> {
        let text = self.line(node, GLOB_CHARS_MAX)?;
        let checked = ArtifactGlob::parse(&text).map(|_| text);
        self.accept(node, checked)
    }

    /// A name whose type validates itself.
    pub(in super::super) fn name<T: FromStr<Err = NameError>>(&mut self, node: &Node) -> Option<T> {
        let text = self.text(node)?;
        self.accept(node, text.parse())
    }

    /// One of a set of words.
    pub(in super::super) fn word<T: Copy>(&mut self, node: &Node, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(node)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let words: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        self.expected(&format!("one of {}", words.join(", ")), node);
        None
    }

    /// `true` or `false`; the YAML 1.1 spellings are rejected.
    pub(in super::super) fn boolean(&mut self, node: &Node) -> Option<bool> {
        let found = node.value.described();
        match &node.value {
            Value::Plain(text) if text == "true" => return Some(true),
            Value::Plain(text) if text == "false" => return Some(false),
            Value::Plain(text) | Value::Quoted(text) => {
                let meant = match text.to_ascii_lowercase().as_str() {
                    "true" | "yes" | "y" | "on" => ": write `true`",
                    "false" | "no" | "n" | "off" => ": write `false`",
                    _ => "",
                };
                self.refuse(node.line, format!("expected `true` or `false`, found {found}{meant}"));
            }
            Value::List(_) | Value::Map(_) | Value::Refused => self.expected("`true` or `false`", node),
        }
        None
    }

    /// An integer within bounds.
    pub(in super::super) fn whole(&mut self, node: &Node, min: u64, max: u64) -> Option<u64> {
        let text = self.digits(node, "a whole number")?;
        match (text.parse::<u64>(), number(text)) {
            (Ok(whole), _) if (min..=max).contains(&whole) => return Some(whole),
            (_, Some(value)) if value.fract() != 0.0 || text.contains(['.', 'e', 'E']) => {
                self.expected("a whole number", node);
            }
            _ => {
                self.refuse(node.line, format!("must be between {min} and {max}, found {}", escape_for_terminal(text)));
            }
        }
        None
    }

    /// A number from zero to a maximum.
    pub(in super::super) fn amount(&mut self, node: &Node, max: f64) -> Option<f64> {
        let text = self.digits(node, "a number")?;
        match number(text) {
            // Adding zero turns `-0` into `0`.
            Some(value) if (0.0..=max).contains(&value) => return Some(value + 0.0),
            _ => self.refuse(node.line, format!("must be between 0 and {max}, found {}", escape_for_terminal(text))),
        }
        None
    }

    /// The text of an unquoted number.
    fn digits<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.value {
            Value::Plain(text) if number(text).is_some() => return Some(text),
            Value::Quoted(text) if number(text).is_some() => {
                let found = node.value.described();
                self.refuse(node.line, format!("expected {what}, found {found}: remove the quotes"));
            }
            _ => self.expected(what, node),
        }
        None
    }

    /// A duration with its unit, in milliseconds.
    pub(in super::super) fn duration(&mut self, node: &Node) -> Option<u64> {
        match &node.value {
            Value::Plain(text) | Value::Quoted(text) if !text.is_empty() => self.accept(node, duration::millis(text)),
            _ => {
                self.expected("a duration such as `90s`, `30m` or `1h30m`", node);
                None
            }
        }
    }

    /// A dependency, by id or by key.
    pub(in super::super) fn dep(&mut self, node: &Node, key_chars_max: usize) -> Option<Dep> {
        let text = self.line(node, key_chars_max)?;
        let shown = escape_for_terminal(&text);
        self.accept(
            node,
            Dep::try_from(text).map_err(|_| {
                format!("`{shown}` is not a job: expected its id (a UUID), or `key:` and its idempotency key")
            }),
        )
    }

    /// A list with a maximum length. Invalid items are reported and skipped.
    pub(in super::super) fn list<T>(
        &mut self,
        node: &Node,
        items_max: usize,
        read: impl Fn(&mut Self, &Node) -> Option<T>,
    ) -> Vec<T> {
        let Value::List(items) = &node.value else {
            self.expected("a list", node);
            return Vec::new();
        };
        if items.len() > items_max {
            self.refuse(node.line, format!("has {} items; at most {items_max} are allowed", items.len()));
            return Vec::new();
        }
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let mark = self.path.enter_item(index);
            values.extend(read(self, item));
            self.path.leave(mark);
        }
        values
    }

    /// Decodes a value under a user-defined key.
    pub(in super::super) fn entry(&mut self, key: &str, read: impl FnOnce(&mut Self)) {
        let mark = self.path.enter_key(key);
        read(self);
        self.path.leave(mark);
    }

    /// A list without duplicates.
    pub(in super::super) fn set<T: PartialEq>(
        &mut self,
        node: &Node,
        items_max: usize,
        read: impl Fn(&mut Self, &Node) -> Option<T>,
    ) -> Vec<T> {
        let mut distinct = Vec::new();
        for value in self.list(node, items_max, read) {
            if !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        distinct
    }

    /// The value, or a reported error.
    pub(in super::super) fn accept<T>(&mut self, node: &Node, outcome: Result<T, impl Display>) -> Option<T> {
        outcome.map_err(|why| self.refuse(node.line, why.to_string())).ok()
    }
}

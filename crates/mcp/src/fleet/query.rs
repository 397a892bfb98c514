//! Paths with query parameters.

use std::fmt::Write as _;

/// A path and its query parameters.
#[derive(Debug, Clone)]
pub(super) struct Query {
    path: String,
    separator: char,
}

impl Query {
    pub(super) fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), separator: '?' }
    }

    /// The same, with one more parameter. A value of a model cannot add another one.
    pub(super) fn with(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.path.push(self.separator);
        self.separator = '&';
        self.path.push_str(name);
        self.path.push('=');
        for byte in value.as_ref().bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b',') {
                self.path.push(char::from(byte));
            } else {
                let _ = write!(self.path, "%{byte:02X}");
            }
        }
        self
    }

    pub(super) fn maybe(self, name: &str, value: Option<impl AsRef<str>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.path
    }
}

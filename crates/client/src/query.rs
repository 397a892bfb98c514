//! Paths with query parameters.

use std::fmt::Write as _;

/// A path and its query parameters.
#[derive(Debug, Clone)]
pub struct Query {
    path: String,
    separator: char,
}

impl Query {
    /// A path without parameters.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), separator: '?' }
    }

    /// The same, with one more parameter.
    pub fn with(mut self, name: &str, value: impl AsRef<str>) -> Self {
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

    /// The same, with one more parameter if there is a value.
    pub fn maybe(self, name: &str, value: Option<impl AsRef<str>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The path as it is sent.
    pub fn as_str(&self) -> &str {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_adds_no_other_parameter() {
        let query = Query::new("/jobs").with("cursor", "a b&limit=9/é").maybe("stage", None::<&str>).with("limit", "5");

        assert_eq!(query.as_str(), "/jobs?cursor=a%20b%26limit%3D9%2F%C3%A9&limit=5");
    }
}

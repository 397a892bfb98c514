//! The result of a benchmark, for programs and for people.

use serde::Serialize;
use serde_json::Value;

use crate::Error;

/// The result of a benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// For programs: one document.
    pub json: Value,
    /// The headings of the table.
    pub headings: &'static [&'static str],
    /// The rows of the table.
    pub rows: Vec<Vec<String>>,
}

impl Report {
    pub(crate) fn new(
        document: &impl Serialize,
        headings: &'static [&'static str],
        rows: Vec<Vec<String>>,
    ) -> Result<Self, Error> {
        let json = serde_json::to_value(document).map_err(|error| Error::failed(error.to_string()))?;
        Ok(Self { json, headings, rows })
    }
}

/// Receives notes on the progress of a benchmark.
#[derive(Clone, Copy)]
pub struct Progress<'n>(pub &'n (dyn Fn(&str) + Send + Sync));

impl Progress<'_> {
    pub(crate) fn note(self, text: &str) {
        (self.0)(text);
    }
}

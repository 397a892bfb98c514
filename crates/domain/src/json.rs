//! Serialisation of documents.

use serde::Serialize;
use serde::ser::Error as _;

/// Serialises a value to JSON with `len` bytes of initial capacity, to avoid reallocations for documents written on
/// every change.
pub fn json_text(value: &impl Serialize, len: usize) -> Result<String, serde_json::Error> {
    let mut text = Vec::with_capacity(len);
    serde_json::to_writer(&mut text, value)?;
    String::from_utf8(text).map_err(serde_json::Error::custom)
}

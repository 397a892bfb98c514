//! Documents as text.

use serde::Serialize;
use serde::ser::Error as _;

/// A value as JSON, written into memory for about `len` bytes: a document that is made for every change should not
/// grow its memory byte by byte.
pub fn json_text(value: &impl Serialize, len: usize) -> Result<String, serde_json::Error> {
    let mut text = Vec::with_capacity(len);
    serde_json::to_writer(&mut text, value)?;
    String::from_utf8(text).map_err(serde_json::Error::custom)
}

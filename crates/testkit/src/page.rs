//! Pages of the documentation that are generated from the code. `UPDATE_GOLDEN=1` rewrites them.

use std::fmt::Write;
use std::path::Path;

/// Compares a page below `docs/` with its generated text, or rewrites it.
///
/// # Panics
///
/// If they differ.
#[track_caller]
pub fn matches(path: &str, text: &str) {
    crate::assert_golden(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path), text);
}

/// A Markdown table.
#[must_use]
pub fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(N));
    for row in rows {
        let cells = row.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

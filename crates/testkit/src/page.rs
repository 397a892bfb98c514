//! Pages of the documentation that are generated from the code. `UPDATE_GOLDEN=1` rewrites them.

use std::fmt::Write;
use std::path::Path;

/// Compares a page below `docs/` with its generated text, or rewrites it.
///
/// # Panics
///
/// If they differ.
pub fn matches(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let written = std::fs::write(&file, text);
        assert!(written.is_ok(), "docs/{path} cannot be written: {written:?}");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "docs/{path} is stale: run this test with UPDATE_GOLDEN=1 and read the difference");
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

//! Golden files under `golden/`. `UPDATE_GOLDEN=1` rewrites them.

use std::fs;
use std::path::PathBuf;

/// The text of the golden file; empty if it does not exist.
pub(crate) fn read(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap_or_default()
}

/// Fails unless the golden file equals `actual`.
pub(crate) fn check(name: &str, actual: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(file(name), actual).expect("the golden file can be written");
    }
    assert!(read(name) == actual, "golden/{name} is stale; UPDATE_GOLDEN=1 writes it anew. Actual text:\n{actual}");
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(name)
}

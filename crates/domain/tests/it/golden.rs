//! Golden files under `golden/`. `UPDATE_GOLDEN=1` rewrites them.

use std::fs;
use std::path::PathBuf;

/// The text of the golden file; empty if it does not exist.
pub(crate) fn read(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap_or_default()
}

/// Fails unless the golden file equals `actual`.
pub(crate) fn check(name: &str, actual: &str) {
    testkit::assert_golden(file(name), actual);
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(name)
}

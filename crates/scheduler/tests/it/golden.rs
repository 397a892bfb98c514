//! Golden files under `golden/`. `UPDATE_GOLDEN=1` rewrites them.

use std::path::PathBuf;

/// Fails unless the golden file equals `actual`.
pub(crate) fn check(name: &str, actual: &str) {
    testkit::assert_golden(file(name), actual);
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(name)
}

/// Fails unless the file of the documentation equals `actual`.
pub(crate) fn check_docs(name: &str, actual: &str) {
    testkit::assert_golden(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name), actual);
}

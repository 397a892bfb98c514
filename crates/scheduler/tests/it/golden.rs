//! Golden files under `golden/`. `UPDATE_GOLDEN=1` rewrites them.

use std::path::PathBuf;

/// Fails unless the golden file equals `actual`.
pub(crate) fn check(name: &str, actual: &str) {
    testkit::assert_golden(file(name), actual);
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(name)
}

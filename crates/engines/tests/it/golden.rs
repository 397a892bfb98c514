//! Expected results under `tests/golden`. `UPDATE_GOLDEN=1` writes them again; the diff is then the review.

use std::path::PathBuf;

/// Fails unless the golden file equals `actual`.
pub(crate) fn check(name: &str, actual: &str) {
    testkit::assert_golden(file(name), actual);
}

/// Where a golden file is.
pub(crate) fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

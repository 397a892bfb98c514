//! Expected results under `tests/golden`. `UPDATE_GOLDEN=1` writes them again; the diff is then the review.

use std::fs;
use std::path::PathBuf;

/// Fails unless the golden file equals `actual`.
pub(crate) fn check(name: &str, actual: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(file(name), actual).unwrap();
    }
    let expected = fs::read_to_string(file(name)).unwrap_or_default();
    assert!(expected == actual, "golden/{name} is stale; UPDATE_GOLDEN=1 writes it anew. Actual text:\n{actual}");
}

/// Where a golden file is.
pub(crate) fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

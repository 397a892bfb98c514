//! Recorded streams of the engines, which scripts play in these tests.

use std::path::PathBuf;

/// Where a recording is.
pub(crate) fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../engines/tests/golden").join(name)
}

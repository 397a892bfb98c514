//! Golden files: expected texts in the repository. `UPDATE_GOLDEN=1` writes them; the diff is then the review.

use std::fs;
use std::path::Path;

/// Fails unless the golden file equals `actual`.
#[track_caller]
pub fn assert_golden(file: impl AsRef<Path>, actual: &str) {
    let file = file.as_ref();
    assert!(
        golden_matches(file, actual),
        "{} is stale: run the test with UPDATE_GOLDEN=1 and read the diff. Actual text:\n{actual}",
        file.display()
    );
}

/// Whether the golden file equals `actual`. With `UPDATE_GOLDEN=1` the file is written first.
#[track_caller]
pub fn golden_matches(file: impl AsRef<Path>, actual: &str) -> bool {
    let file = file.as_ref();
    if std::env::var_os("UPDATE_GOLDEN").is_some()
        && let Err(error) = fs::write(file, actual)
    {
        panic!("cannot write {}: {error}", file.display());
    }
    fs::read_to_string(file).is_ok_and(|expected| expected == actual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_golden_file_matches_its_own_text_only() {
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            return;
        }
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/golden.rs");

        assert!(golden_matches(&file, include_str!("golden.rs")));
        assert!(!golden_matches(&file, "another text"));
        assert!(!golden_matches(file.with_file_name("missing"), ""));
    }
}

//! A question that an agent leaves in a file, whichever engine it runs on [B6].

use std::fs;
use std::path::Path;

use domain::QUESTION_FILE;
use sandbox::DirFd;

/// The longest question. People answer short ones.
const QUESTION_BYTES_MAX: u64 = 8_000;

/// Removes what an earlier run, the base branch or a setup command left: only this run's question counts.
pub(super) fn clear(dir: &Path) {
    // What cannot be removed is no regular file, and so no question either.
    let _ = fs::remove_file(dir.join(QUESTION_FILE));
}

/// The agent's question for a person, if it wrote one. Only a regular file holds a question: neither a link nor a
/// second hard link of another file.
pub(super) fn question(dir: &Path) -> Option<String> {
    let bytes = DirFd::open(dir).ok()?.read(QUESTION_FILE, QUESTION_BYTES_MAX).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    // [B6]
    #[test]
    fn only_an_ordinary_file_that_says_something_is_a_question() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(QUESTION_FILE);
        assert_eq!(question(dir.path()), None);

        fs::write(&file, " \n").unwrap();
        assert_eq!(question(dir.path()), None);
        fs::write(&file, "Which gate?\n").unwrap();
        assert_eq!(question(dir.path()).as_deref(), Some("Which gate?"));
        fs::write(&file, "x".repeat(20_000)).unwrap();
        assert_eq!(question(dir.path()).map(|text| text.len()), Some(8_000));

        clear(dir.path());
        assert!(!file.exists());
        fs::write(dir.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), &file).unwrap();
        assert_eq!(question(dir.path()), None);
    }
}

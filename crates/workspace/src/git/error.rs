//! Errors of a git command.

use std::io;
use std::time::Duration;

/// A git command that could not be run, or that failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The program could not be started or waited for.
    #[error("cannot run `git {verb}`")]
    Start {
        /// The subcommand.
        verb: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It timed out and was killed.
    #[error("`git {verb}` was stopped after {limit:?}")]
    TimedOut {
        /// The subcommand.
        verb: &'static str,
        /// Its time limit.
        limit: Duration,
    },
    /// It ended with an error.
    #[error("`git {verb}` failed with {}: {stderr}", .code.map_or("a signal".to_owned(), |code| format!("exit code {code}")))]
    Failed {
        /// The subcommand.
        verb: &'static str,
        /// Its exit code, or `None` after a signal.
        code: Option<i32>,
        /// The last lines it wrote, safe to show.
        stderr: String,
    },
    /// Its output exceeds the limit.
    #[error("`git {verb}` printed too much")]
    AnswerTooLong {
        /// The subcommand.
        verb: &'static str,
    },
    /// Its output cannot be parsed.
    #[error("`git {verb}` printed something unexpected")]
    Garbled {
        /// The subcommand.
        verb: &'static str,
    },
}

/// Git prints the cause last; earlier lines are progress.
const SHOWN_LINES_MAX: usize = 6;
const SHOWN_LINE_CHARS_MAX: usize = 300;

impl GitError {
    pub(super) fn failed(verb: &'static str, code: Option<i32>, stderr: &[u8]) -> Self {
        let text = String::from_utf8_lossy(stderr);
        let lines: Vec<String> =
            text.lines().rev().filter(|line| !line.trim().is_empty()).take(SHOWN_LINES_MAX).map(clean).collect();
        let stderr = lines.into_iter().rev().collect::<Vec<_>>().join(" | ");
        Self::Failed { verb, code, stderr }
    }
}

fn clean(line: &str) -> String {
    let shown: String = line.trim_end().chars().take(SHOWN_LINE_CHARS_MAX).map(domain::terminal_safe).collect();
    without_passwords(&shown)
}

/// `https://user:secret@host` as `https://host`.
fn without_passwords(line: &str) -> String {
    let mut shown = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown.push_str(before);
        let authority_len =
            after.find(|c: char| matches!(c, '/' | '\'' | '"') || c.is_whitespace()).unwrap_or(after.len());
        let skipped = after[..authority_len].rfind('@').map_or(0, |at| at + 1);
        rest = &after[skipped..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_ends_with_what_git_said_last_and_cannot_move_a_cursor() {
        let error = GitError::failed("push", Some(1), b"progress\n\n\x1b[2Jfatal: no\n");

        assert_eq!(error.to_string(), "`git push` failed with exit code 1: progress | \u{fffd}[2Jfatal: no");
    }

    // [attack: secrets in logs, events, artifacts]
    #[test]
    fn an_error_never_repeats_a_password() {
        let error =
            GitError::failed("fetch", Some(128), b"fatal: unable to access 'https://me:hunter2@forge.example/a/'");

        assert!(error.to_string().ends_with("'https://forge.example/a/'"), "{error}");
    }
}

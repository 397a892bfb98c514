//! Whether a failed git command is worth a retry.
//!
//! Git reports failures as text only, mixed with the text of the remote. A failure that is not known to be permanent is
//! retryable, within the caller's bounds.

use std::io;

use super::GitError;

/// Whether a failure passes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitFailureKind {
    /// It may pass: the network is unavailable, or a server restarts.
    Transient,
    /// Repository not found. One that existed a moment ago may come back, such as one on a network disk.
    Missing,
    /// The remote rejects this machine: a person has to configure an accepted credential.
    Rejected,
    /// It lasts until a person acts.
    Permanent,
}

/// The commands that talk to a remote.
const REMOTE_VERBS: [&str; 4] = ["fetch", "push", "ls-remote", "lfs"];

/// Another command that failed because it had to fetch contents from a remote.
const ASKED_A_REMOTE: [&str; 4] =
    ["promisor remote", "smudge filter lfs failed", "Could not resolve host", "RPC failed"];

/// Repository not found, in the messages of git, its servers and large file storage.
const MISSING: [&str; 3] = ["does not appear to be a git repository", "epository not found", "' not found"];

/// A rejected push that may succeed when repeated: another process had locked the ref, or the server has a problem.
const PASSING_REJECTIONS: [&str; 4] =
    ["cannot lock ref", "failed to update ref", "Internal Server Error", "internal server error"];

/// A rejected credential, or a URL at which this machine finds nothing.
const REFUSED: [&str; 16] = [
    "Authentication failed",
    "Authentication required",
    "Authorization error",
    "could not read Username",
    "could not read Password",
    "terminal prompts disabled",
    "Permission denied",
    "permission denied",
    "insufficient permission",
    "PathAccess denied",
    "access denied",
    "Host key verification failed",
    "SSL certificate problem",
    "returned error: 401",
    "returned error: 403",
    "returned error: 404",
];

/// Permanent failures: a push that is rejected for its content, a missing branch.
const LASTING: [&str; 6] = [
    "returned error: 413",
    "[rejected]",
    "[remote rejected]",
    "hook declined",
    "couldn't find remote ref",
    "not allowed",
];

impl GitError {
    /// Whether the same command may succeed later.
    pub fn kind(&self) -> GitFailureKind {
        match self {
            Self::Start { source, .. } => match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => GitFailureKind::Permanent,
                _ => GitFailureKind::Transient,
            },
            Self::TimedOut { verb, .. } if REMOTE_VERBS.contains(verb) => GitFailureKind::Transient,
            Self::Failed { verb, stderr, .. } => kind_of(verb, stderr),
            Self::TimedOut { .. } | Self::AnswerTooLong { .. } | Self::Garbled { .. } => GitFailureKind::Permanent,
        }
    }
}

impl GitError {
    /// Whether a remote may be at fault: it is unavailable, does not exist, or rejects this machine.
    pub fn may_be_the_remotes(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::TimedOut { .. }) && self.kind() != GitFailureKind::Permanent
    }
}

fn kind_of(verb: &str, said: &str) -> GitFailureKind {
    let says = |words: &[&str]| words.iter().any(|words| said.contains(words));
    if !REMOTE_VERBS.contains(&verb) && !says(&ASKED_A_REMOTE) {
        return GitFailureKind::Permanent;
    }
    if says(&MISSING) {
        return GitFailureKind::Missing;
    }
    if says(&LASTING) && !says(&PASSING_REJECTIONS) {
        return GitFailureKind::Permanent;
    }
    if says(&REFUSED) { GitFailureKind::Rejected } else { GitFailureKind::Transient }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds<const N: usize>(verb: &'static str, said: [&str; N]) -> [GitFailureKind; N] {
        said.map(|said| GitError::failed(verb, Some(128), said.as_bytes()).kind())
    }

    // [F5]
    #[test]
    fn a_network_that_is_away_and_a_server_in_trouble_may_pass() {
        let said = [
            "fatal: unable to access 'https://forge.example/a/': Could not resolve host: forge.example",
            "ssh: connect to host forge.example port 22: Connection timed out\nfatal: Could not read from remote repository.",
            "fatal: unable to access 'https://forge.example/a/': The requested URL returned error: 503",
            "error: RPC failed; curl 56 Recv failure: Connection reset by peer\nfatal: the remote end hung up unexpectedly",
            " ! [remote rejected] x -> aq/run/1/e1 (cannot lock ref 'refs/heads/aq/run/1/e1': File exists)",
            " ! [remote rejected] x -> aq/run/1/e1 (Internal Server Error)\nerror: failed to push some refs",
            "an unknown message",
        ];

        assert_eq!(kinds("push", said), [GitFailureKind::Transient; 7]);
        assert_eq!(GitError::failed("fetch", None, b"").kind(), GitFailureKind::Transient, "it was killed");
    }

    // [F5]
    #[test]
    fn a_credential_that_is_not_accepted_is_refused() {
        let said = [
            "remote: Invalid username or token.\nfatal: Authentication failed for 'https://forge.example/a/'",
            "fatal: could not read Username for 'https://forge.example': terminal prompts disabled",
            "git@forge.example: Permission denied (publickey).\nfatal: Could not read from remote repository.",
            "fatal: unable to access 'https://forge.example/a/': The requested URL returned error: 403",
        ];

        assert_eq!(kinds("push", said), [GitFailureKind::Rejected; 4]);
    }

    // [F5]
    #[test]
    fn a_refused_push_and_a_strange_address_last() {
        let said = [
            " ! [remote rejected] x -> aq/run/1/e1 (pre-receive hook declined)\nerror: failed to push some refs",
            " ! [rejected] x -> main (non-fast-forward)",
            "fatal: transport 'ext' not allowed",
        ];

        assert_eq!(kinds("push", said), [GitFailureKind::Permanent; 3]);
    }

    #[test]
    fn a_missing_repository_is_told_from_a_server_that_is_away() {
        let said = [
            "fatal: '/srv/notes.git' does not appear to be a git repository\nfatal: Could not read from remote repository.",
            "ERROR: Repository not found.\nfatal: Could not read from remote repository.",
            "remote: Repository not found.\nfatal: repository 'https://forge.example/a/' not found",
        ];

        assert_eq!(kinds("fetch", said), [GitFailureKind::Missing; 3]);
    }

    #[test]
    fn a_local_command_fails_permanently() {
        let lazily = "fatal: could not fetch 0190f3a4 from promisor remote";

        assert_eq!(
            kinds("update-index", ["fatal: unable to write new index file", lazily]),
            [GitFailureKind::Permanent, GitFailureKind::Transient]
        );
    }
}

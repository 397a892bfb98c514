//! The factory's own git: argv only, no settings but ours, nothing that a repository could make it run.

mod answer;
mod call;
mod error;
mod hardening;
mod leftovers;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::GitError;

pub(crate) use call::Call;
pub(crate) use hardening::PROMISOR;
pub(crate) use leftovers::{clear_lock, clear_locks};

use crate::config::{GitConfig, Identity, Limits};

/// Runs git commands.
#[derive(Debug, Clone)]
pub struct Git {
    path: OsString,
    home: PathBuf,
    access: GitConfig,
    identity: Identity,
    local: Duration,
    network: Duration,
}

impl Git {
    /// Git as found on `path`, with `empty_home` as its home folder unless the configuration names another.
    pub fn new(path: &OsStr, empty_home: &Path, access: GitConfig, identity: Identity, limits: &Limits) -> Self {
        Self {
            path: absolute_entries(path),
            home: access.home.clone().unwrap_or_else(|| empty_home.to_owned()),
            access,
            identity,
            local: Duration::from_millis(limits.git_local_ms),
            network: Duration::from_millis(limits.git_network_ms),
        }
    }

    /// The same git with commits by somebody else.
    #[must_use]
    pub(crate) fn by(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }

    /// Where its programs are looked for.
    pub(crate) fn path(&self) -> &OsStr {
        &self.path
    }

    /// The size above which a repository is mirrored without the contents of old files.
    pub(crate) fn partial_above_bytes(&self) -> u64 {
        self.access.partial_above_mib.saturating_mul(1024 * 1024)
    }

    /// Who our commits are by.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Begins a git command that works on the repository `git_dir`, never on one that git finds by itself.
    pub(crate) fn call<'a>(&'a self, git_dir: &'a Path, verb: &'static str) -> Call<'a> {
        Call::new(self, git_dir, verb)
    }
}

/// Without relative entries: git runs inside worktrees, where a relative entry would be the agent's to fill.
fn absolute_entries(path: &OsStr) -> OsString {
    let kept = std::env::split_paths(path).filter(|entry| entry.is_absolute());
    // Joining fails only on an entry with `:` in it, which splitting cannot give.
    std::env::join_paths(kept).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_folder_is_never_searched_for_programs() {
        assert_eq!(absolute_entries(OsStr::new("/usr/bin:.::bin:/bin")), OsString::from("/usr/bin:/bin"));
    }
}

//! The factory's own git: argv only, no settings but the factory's, no program that a repository could name.

mod command;
mod error;
mod hardening;
mod is_retryable;
mod leftovers;
mod operator;
mod output;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::CommitAuthor;
use sandbox::{Limits, PathAccess, Sandbox, find_program};

pub use error::GitError;
pub use is_retryable::GitFailureKind;
pub use operator::OperatorAccess;

pub(crate) use command::GitCommand;
pub(crate) use hardening::PROMISOR;
pub(crate) use leftovers::{clear_lock, clear_locks};

use crate::config::GitConfig;

/// Runs git commands.
#[derive(Debug, Clone)]
pub struct Git {
    path: OsString,
    home: PathBuf,
    access: GitConfig,
    operator: OperatorAccess,
    identity: CommitAuthor,
    local: Duration,
    network: Duration,
}

/// System directories of programs, and of what they load at start.
const SYSTEM: [&str; 13] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/passwd",
];
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];

impl Git {
    /// Git as found on `path`, with `empty_home` as its home directory unless the configuration names another.
    pub fn new(path: &OsStr, empty_home: &Path, access: GitConfig, identity: CommitAuthor, limits: &Limits) -> Self {
        Self {
            path: absolute_entries(path),
            home: access.home.clone().unwrap_or_else(|| empty_home.to_owned()),
            access,
            operator: OperatorAccess::default(),
            identity,
            local: Duration::from_millis(limits.git_local_ms),
            network: Duration::from_millis(limits.git_network_ms),
        }
    }

    /// The same git, with the operator's own access to remotes.
    #[must_use]
    pub fn with_access_of(mut self, operator: OperatorAccess) -> Self {
        self.operator = operator;
        self
    }

    /// The same git with another commit author.
    #[must_use]
    pub(crate) fn by(mut self, identity: CommitAuthor) -> Self {
        self.identity = identity;
        self
    }

    /// Its `PATH`.
    pub(crate) fn path(&self) -> &OsStr {
        &self.path
    }

    /// The size above which a repository is mirrored without the contents of old files.
    pub(crate) fn partial_above_bytes(&self) -> u64 {
        self.access.partial_above_mib.saturating_mul(1024 * 1024)
    }

    /// The author of the factory's commits.
    pub(crate) fn identity(&self) -> &CommitAuthor {
        &self.identity
    }

    /// The paths that git's programs need, and nothing else of this machine.
    pub(crate) fn sandbox(&self) -> Sandbox {
        let program = find_program("git", Some(&self.path)).and_then(|program| program.canonicalize().ok());
        // Outside of the system directories it has its own helpers, beside its directory.
        let own = program.and_then(|program| program.ancestors().nth(2).map(Path::to_owned));
        let own = own.filter(|folder| folder.components().count() > 2);
        let large_files = find_program("git-lfs", Some(&self.path)).and_then(|program| program.canonicalize().ok());
        let read =
            SYSTEM.map(PathBuf::from).into_iter().chain(own).chain(large_files).map(|path| (path, PathAccess::Read));
        let devices = DEVICES.map(|path| (PathBuf::from(path), PathAccess::Everything));
        let none = Sandbox::default().with("/", PathAccess::Nothing);
        read.chain(devices).fold(none, |sandbox, (path, reach)| sandbox.with(path, reach))
    }

    /// Starts to build a git command on the repository `git_dir`, never on one that git discovers.
    pub(crate) fn call<'a>(&'a self, git_dir: &'a Path, verb: &'static str) -> GitCommand<'a> {
        GitCommand::new(self, git_dir, verb)
    }
}

/// Without relative entries: git runs inside worktrees, where the agent could fill a relative entry.
fn absolute_entries(path: &OsStr) -> OsString {
    let kept = std::env::split_paths(path).filter(|entry| entry.is_absolute());
    // Joining fails only on an entry with `:` in it, which splitting cannot return.
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

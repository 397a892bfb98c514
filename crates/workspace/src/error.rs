//! Errors of a host, apart from outcomes that have types of their own.

use std::io;
use std::path::PathBuf;

use domain::{BranchName, CommitSha, RepoIdentity, RepoName};
use sandbox::LockError;

use crate::git::GitError;
use crate::remote::RemoteError;
use crate::unsaved_files::UnsavedFile;

/// An error of this host, its disk or its remotes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A git command could not be run, or failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// An I/O error.
    #[error("cannot {doing} {path}")]
    Disk {
        /// The operation.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A repository's URL is invalid.
    #[error("repository `{repo}` has no usable address")]
    Remote {
        /// The repository.
        repo: RepoName,
        /// The reason.
        #[source]
        source: RemoteError,
    },
    /// The remote has no such branch.
    #[error("repository `{repo}` has no branch `{branch}`: create it, or name another one by `base` in the manifest")]
    NoSuchBranch {
        /// The repository.
        repo: RepoName,
        /// The branch.
        branch: BranchName,
    },
    /// The remote does not have, or no longer has, a recorded commit.
    #[error("repository `{repo}` has no commit `{sha}`")]
    NoSuchCommit {
        /// The repository.
        repo: RepoName,
        /// The commit.
        sha: CommitSha,
    },
    /// Another process of this host held a lock for too long.
    #[error("the lock {path} was held by another process for too long")]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The base branch moved during every attempt to merge.
    #[error("branch `{branch}` of repository `{repo}` kept moving")]
    Contended {
        /// The repository.
        repo: RepoName,
        /// The branch.
        branch: BranchName,
    },
    /// The branch is checked out where the operator works, so it is not pushed to.
    #[error(
        "`{branch}` is checked out in {}, which has no remote: the factory does not change a branch that is checked out",
        .path.display()
    )]
    CheckedOut {
        /// The branch.
        branch: String,
        /// The worktree that has it checked out.
        path: PathBuf,
    },
    /// A worktree belongs to another repository than its name now means.
    #[error("the worktree is of {worktree}, and `{repo}` is {configured} now")]
    OtherRepository {
        /// The repository's name.
        repo: RepoName,
        /// The worktree's repository.
        worktree: String,
        /// The name's repository.
        configured: RepoIdentity,
    },
    /// A submodule has a forbidden path or URL.
    #[error("submodule `{path}` of repository `{repo}` is refused: its path or its address is not one that we follow")]
    Submodule {
        /// The repository.
        repo: RepoName,
        /// The path of the submodule.
        path: String,
    },
    /// The work holds a file that is too large for git hosts.
    #[error("`{}` is too large to be committed: delete it, or have git ignore it", domain::escape_for_terminal(&path.to_string_lossy()))]
    TooLarge {
        /// The file, below the worktree.
        path: PathBuf,
    },
    /// A worktree holds files that cannot be saved elsewhere.
    #[error("{0}, and cannot be saved elsewhere")]
    OnlyHere(UnsavedFile),
    /// The worktree is not the directory that the factory made.
    #[error("the worktree {path} was replaced by something else")]
    NotOurWorktree {
        /// Its expected path.
        path: PathBuf,
    },
}

impl Error {
    /// An I/O error of an operation on a path.
    pub fn disk(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Disk { doing, path, source }
    }
}

impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Disk { doing, path, source } => Self::Disk { doing, path, source },
            LockError::Held { path } => Self::Locked { path },
        }
    }
}

//! What can go wrong on a host, apart from outcomes that have names of their own.

use std::io;
use std::path::PathBuf;

use domain::{BranchName, CommitSha, RepoIdentity, RepoName};

use crate::git::GitError;
use crate::remote::RemoteError;
use crate::unsaved_files::UnsavedFile;

/// A fault of this host, its disk or its remotes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A git command could not be run, or refused.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The disk refused.
    #[error("cannot {doing} {path}")]
    Disk {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A repository's address was refused.
    #[error("repository `{repo}` has no usable address")]
    Remote {
        /// The repository.
        repo: RepoName,
        /// Why not.
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
    /// The remote does not have, or no longer has, a commit that it should have.
    #[error("repository `{repo}` has no commit `{sha}`")]
    NoSuchCommit {
        /// The repository.
        repo: RepoName,
        /// The commit.
        sha: CommitSha,
    },
    /// Another process of this host kept a lock for too long.
    #[error("the lock {path} was held by somebody else for too long")]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The base branch moved each time we had merged onto it.
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
    /// A worktree is of another repository than the one that its name stands for now.
    #[error("the worktree is of {worktree}, and `{repo}` is {configured} now")]
    OtherRepository {
        /// The repository's name.
        repo: RepoName,
        /// What the worktree is of.
        worktree: String,
        /// What the name stands for.
        configured: RepoIdentity,
    },
    /// A submodule lies where none may lie, or comes from where nothing may come from.
    #[error("submodule `{path}` of repository `{repo}` is refused: its path or its address is not one that we follow")]
    Submodule {
        /// The repository.
        repo: RepoName,
        /// The path of the submodule.
        path: String,
    },
    /// The work holds a file that no git host takes.
    #[error("`{}` is too large to be committed: delete it, or have git ignore it", domain::escape_for_terminal(&path.to_string_lossy()))]
    TooLarge {
        /// The file, below the worktree.
        path: PathBuf,
    },
    /// A worktree holds what cannot be saved elsewhere.
    #[error("{0}, and cannot be saved elsewhere")]
    OnlyHere(UnsavedFile),
    /// The worktree is not the directory that we made.
    #[error("the worktree {path} was replaced by something else")]
    NotOurWorktree {
        /// Where it should be.
        path: PathBuf,
    },
}

/// An error with everything that caused it, in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let more = deeper.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = deeper.source();
    }
    text
}

impl Error {
    pub(crate) fn disk(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Disk { doing, path, source }
    }
}

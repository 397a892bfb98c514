//! A bare copy of a repository, shared by all worktrees of this host and changed only by the factory's own git.

mod fetching;
mod remote_refs;

use std::fs;
use std::path::{Path, PathBuf};

use domain::{BranchTemplate, CommitAuthor, JobId, RepoIdentity, RepoName};
use sandbox::{FileLock, make_private_folder, remove_file, remove_folder, replace_shared_file};

use crate::config::RepoConfig;
use crate::error::Error;
use crate::git::GitCommand;
use crate::host::Host;
use crate::refs::RefName;
use crate::remote::Remote;
use crate::repository::{GitDir, Repository};
use crate::state::MirrorName;
use crate::worktree::Worktree;

pub(crate) use fetching::quiet;

/// The local mirror of one repository.
#[derive(Clone)]
pub struct Mirror {
    pub(crate) host: Host,
    pub(crate) repo: RepoName,
    name: MirrorName,
    path: PathBuf,
    remote: Remote,
    identity: RepoIdentity,
    /// The clone without a remote in which the operator works, if that is the remote.
    checkout: Option<GitDir>,
    /// The branch template of its pull requests, if it is not the default.
    branch: Option<BranchTemplate>,
    /// Whether contents of files are fetched on demand, if configured.
    pub(crate) partial: Option<bool>,
    /// The size of the repository, if known.
    pub(crate) size_bytes: Option<u64>,
    /// Contents of files in large file storage are fetched too.
    pub(crate) large_files: bool,
    /// Submodules are checked out too.
    pub(crate) submodules: bool,
}

/// A mirror's whole configuration. It names no remote and no program, so nothing in it needs trust.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tlogAllRefUpdates = false\n";

/// The same where another account reads its objects: only its group gains access.
const SHARED_CONFIG: &str =
    "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tlogAllRefUpdates = false\n\tsharedRepository = 0640\n";

/// Files that would change what git does in a mirror. The factory makes none of them, so they are hostile.
const FOREIGN: [&str; 7] =
    ["config.worktree", "commondir", "gitdir", "hooks", "info", "shallow", "objects/info/alternates"];

impl Mirror {
    /// The mirror on `host` of `repository`, which is called `repo` here. Nothing is fetched yet.
    pub fn new(host: Host, repo: RepoName, repository: Repository, config: &RepoConfig) -> Self {
        let (remote, identity, checkout) = repository.into_parts();
        let name = MirrorName::of(&identity);
        Self {
            path: host.state.mirror(&name),
            host,
            repo,
            name,
            remote,
            identity,
            checkout,
            branch: None,
            partial: config.partial,
            size_bytes: None,
            large_files: config.lfs,
            submodules: config.submodules,
        }
    }

    /// The same mirror, with the repository's branch names and author.
    #[must_use]
    pub fn named(mut self, branch: Option<BranchTemplate>, author: Option<CommitAuthor>) -> Self {
        self.branch = branch;
        if let Some(author) = author {
            self.host.git = self.host.git.by(author);
        }
        self
    }

    /// The branch of a job's pull request, which only a granted promotion moves.
    pub fn pr_branch(&self, job: JobId) -> RefName {
        match &self.branch {
            Some(template) => RefName::branch(&template.branch(job)),
            None => self.host.refs.pr_branch(job),
        }
    }

    /// The repository it mirrors.
    pub fn repo(&self) -> &RepoName {
        &self.repo
    }

    /// The repository's identity.
    pub fn identity(&self) -> &RepoIdentity {
        &self.identity
    }

    /// The mirror of the same repository that a worktree borrows its objects from, perhaps one of an earlier version.
    /// `None` if the worktree belongs to another repository.
    pub fn of_worktree(&self, worktree: &Worktree) -> Option<Self> {
        let is_same = worktree.identity().is_none_or(|identity| *identity == self.identity);
        let name = worktree.mirror();
        is_same.then(|| Self { path: self.host.state.mirror(&name), name, ..self.clone() })
    }

    /// The error of a worktree that belongs to another repository.
    pub fn is_not_of(&self, worktree: &Worktree) -> Error {
        let of = worktree.identity().map_or_else(|| worktree.repo().to_string(), ToString::to_string);
        Error::OtherRepository { repo: self.repo.clone(), worktree: of, configured: self.identity.clone() }
    }

    pub(crate) fn name(&self) -> &MirrorName {
        &self.name
    }

    /// Where a branch of the remote is checked out, if the remote is a clone in which the operator works.
    pub(crate) fn checked_out(&self, branch: &RefName) -> Option<PathBuf> {
        self.checkout.as_ref()?.worktree_on(&branch.short().parse().ok()?)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A git command on this mirror that contacts no remote.
    pub(crate) fn call(&self, verb: &'static str) -> GitCommand<'_> {
        let call = self.host.git.call(&self.path, verb);
        if self.is_partial() { call.lazily(&self.remote) } else { call }
    }

    /// The remote that it mirrors.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    pub(crate) fn url(&self) -> &str {
        self.remote.url()
    }

    /// Restores what an agent of the same user could have changed. Creating the mirror is the same as repairing it.
    pub(crate) fn seal(&self) -> Result<(), Error> {
        for folder in ["refs/heads", "objects/info", "objects/pack"] {
            let folder = self.path.join(folder);
            make_private_folder(&folder).map_err(Error::disk("make", &folder))?;
        }
        let config = if self.host.account.is_some() { SHARED_CONFIG } else { CONFIG };
        for (name, content) in [("HEAD", "ref: refs/heads/none\n"), ("config", config)] {
            let path = self.path.join(name);
            if fs::read(&path).ok().as_deref() != Some(content.as_bytes()) {
                replace_shared_file(&path, content.as_bytes()).map_err(Error::disk("write", &path))?;
            }
        }
        for name in FOREIGN {
            let path = self.path.join(name);
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => remove_folder(&path),
                Ok(_) => remove_file(&path),
                Err(_) => Ok(()),
            }
            .map_err(Error::disk("remove", &path))?;
        }
        Ok(())
    }

    /// Lets the account that agents run under read the objects that worktrees borrow.
    pub(crate) fn share(&self) -> Result<(), Error> {
        let Some(account) = &self.host.account else { return Ok(()) };
        account.let_read(&self.path).map_err(Error::disk("share", &self.path))
    }

    pub(crate) async fn lock(&self) -> Result<FileLock, Error> {
        self.host.lock_mirror(&self.name).await
    }
}

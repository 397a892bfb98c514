//! The layout of a factory's state directory.

use std::path::{Path, PathBuf};

use domain::{EngineName, JobId, ProductId, RepoIdentity, RepoName, RunKey};
use sandbox::{Account, AccountError, FileLock, make_private_folder};

use crate::error::Error;

/// The directory of one factory, and the only module that knows its layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    root: PathBuf,
}

/// Proof that no other process uses the same directory. Dropping it, or dying, releases it.
#[derive(Debug)]
pub struct StateHold {
    _lock: FileLock,
}

impl StateDir {
    /// The directory `root`, created if it is missing.
    pub fn new(root: &Path) -> Result<Self, Error> {
        let root = std::path::absolute(root).map_err(Error::disk("find", root))?;
        let state = Self { root };
        let folders = [
            state.mirrors(),
            state.worktrees(),
            state.metadata_root(),
            state.homes(),
            state.runs(),
            state.outbox(),
            state.branches(),
            state.empty_home(),
        ];
        for folder in folders {
            make_private_folder(&folder).map_err(Error::disk("make", &folder))?;
        }
        Ok(state)
    }

    /// The directory `root` as it is: nothing is created. For read-only callers.
    pub fn existing(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The factory process that holds the directory, if one does.
    pub fn holder(&self) -> Option<u32> {
        FileLock::holder(&self.lock_file())
    }

    fn lock_file(&self) -> PathBuf {
        self.root.join("factory.lock")
    }

    /// Opens to an account what its programs need, and nothing else: tokens, records and metadata stay closed.
    pub(crate) fn open_to(&self, account: &Account) -> Result<(), AccountError> {
        let folders = [self.worktrees(), self.mirrors(), self.caches(), self.homes(), self.empty_home()];
        for folder in &folders {
            make_private_folder(folder).map_err(|source| account.refused(folder, source))?;
        }
        account.let_through(&self.root, &folders)
    }

    /// Locks the directory for this process, or `None` if another process has it.
    pub fn hold(&self) -> Result<Option<StateHold>, Error> {
        let path = self.lock_file();
        let Some(lock) = FileLock::try_take(&path)? else { return Ok(None) };
        lock.sign().map_err(Error::disk("write", &path))?;
        Ok(Some(StateHold { _lock: lock }))
    }

    /// The directory of all worktrees.
    pub fn worktrees(&self) -> PathBuf {
        self.root.join("worktrees")
    }

    /// A home directory that stays empty, for programs that must not find user settings.
    pub fn empty_home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The engines' conversations between the runs of a job, by engine and job.
    pub fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// One engine's conversations of one job.
    pub fn conversation(&self, engine: &EngineName, job: JobId) -> PathBuf {
        self.sessions().join(engine.as_str()).join(job.to_string())
    }

    /// The session of the last run of one job with one engine on this host.
    pub fn last_session(&self, engine: &EngineName, job: JobId) -> PathBuf {
        self.sessions().join(engine.as_str()).join(format!("{job}.session"))
    }

    /// The home directories of runs.
    pub(crate) fn homes(&self) -> PathBuf {
        self.root.join("homes")
    }

    /// The home directory of one run, isolated from those of other runs.
    pub(crate) fn home(&self, run: RunKey) -> PathBuf {
        self.homes().join(run.to_string())
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Directories that outlive worktrees.
    pub(crate) fn caches(&self) -> PathBuf {
        self.root.join("caches")
    }

    /// One of them. No two products share one: files of one product's agent would run in the other's work.
    pub(crate) fn cache(&self, product: &ProductId, repo: &RepoName, name: &str) -> PathBuf {
        self.caches().join(product.as_str()).join(flat(repo)).join(name)
    }

    /// Locked during a clean-up.
    pub(crate) fn gc_lock(&self) -> PathBuf {
        self.root.join("gc.lock")
    }

    /// The repository whose caches have this directory name.
    pub(crate) fn cached(name: &str) -> Option<RepoName> {
        name.replace('+', "/").parse().ok()
    }

    pub(crate) fn mirrors(&self) -> PathBuf {
        self.root.join("mirrors")
    }

    pub(crate) fn mirror(&self, name: &MirrorName) -> PathBuf {
        self.mirrors().join(format!("{}.git", name.0))
    }

    pub(crate) fn mirror_lock(&self, name: &MirrorName) -> PathBuf {
        self.mirrors().join(format!("{}.lock", name.0))
    }

    pub(crate) fn worktree(&self, run: RunKey) -> PathBuf {
        self.worktrees().join(run.to_string())
    }

    /// The factory's metadata of a worktree, out of its agent's reach.
    pub(crate) fn metadata(&self, run: RunKey) -> PathBuf {
        self.metadata_root().join(run.to_string())
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// The nonce of the current claim.
    pub fn claim_note(&self) -> PathBuf {
        self.root.join("claim.json")
    }

    pub(crate) fn outbox(&self) -> PathBuf {
        self.root.join("outbox")
    }

    /// Records of branches that are being made.
    pub(crate) fn branches(&self) -> PathBuf {
        self.root.join("branches")
    }

    pub(crate) fn metadata_root(&self) -> PathBuf {
        self.root.join("desks")
    }
}

/// The name of a mirror's directory. Mirrors are kept by the identity of their repository: two repositories of one name
/// share nothing, and one repository with two names is mirrored once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MirrorName(String);

impl MirrorName {
    pub(crate) fn of(identity: &RepoIdentity) -> Self {
        Self(identity.file_name())
    }

    /// A mirror that is named after its repository: worktrees without a recorded identity borrow from such a one.
    pub(crate) fn by_repo(repo: &RepoName) -> Self {
        Self(flat(repo))
    }

    /// The mirror in a directory of this name.
    pub(crate) fn in_directory(name: &str) -> Option<Self> {
        name.strip_suffix(".git").map(|name| Self(name.to_owned()))
    }
}

impl std::fmt::Display for MirrorName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// `acme/notes` as one file name. `+` is in no repository's name, so that names never collide.
fn flat(repo: &RepoName) -> String {
    repo.as_str().replace('/', "+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_repository_lies_inside_another() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::new(root.path()).unwrap();

        let outer = state.mirror(&MirrorName::by_repo(&"acme".parse().unwrap()));
        let inner = state.mirror(&MirrorName::by_repo(&"acme.git/notes".parse().unwrap()));

        assert!(!inner.starts_with(&outer), "{inner:?} is inside {outer:?}");
    }

    #[test]
    fn one_process_at_a_time_holds_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::new(root.path()).unwrap();

        let first = state.hold().unwrap();
        assert!(first.is_some());
        assert!(state.hold().unwrap().is_none());
        drop(first);

        assert!(state.hold().unwrap().is_some());
    }
}

//! A worker host: a state directory, a git, and the worktrees in it.

use std::collections::BTreeSet;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, ProductId, RepoName, RunKey};
use sandbox::{Account, AccountError, DirFd, FileLock, PathAccess, Sandbox, SandboxSummary, remove_folder};

use crate::config::RepoConfig;
use crate::error::Error;
use crate::git::{Git, clear_locks};
use crate::mirror::Mirror;
use crate::refs::RefNames;
use crate::repository::Repository;
use crate::state::{MirrorName, StateDir};
use crate::worktree::Worktree;

/// The directory for temporary files in a home.
const TEMPORARY: &str = "tmp";

/// The directory for the socket of the run's tools in a home, and the socket.
const TOOLS: &str = ".giga";
const SOCKET: &str = "run.sock";

/// What mirrors and worktrees of this machine share. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    pub(crate) state: StateDir,
    pub(crate) git: Git,
    pub(crate) refs: RefNames,
    pub(crate) clock: Arc<dyn Clock>,
    /// The account that agents run under, if it is another.
    pub(crate) account: Option<Account>,
    /// Whether the factory's own git reads worktrees inside a sandbox.
    encloses: bool,
}

/// A first fetch of a large repository may take all of git's own time limit; the next waiter waits that long.
const LOCK_PATIENCE: Duration = Duration::from_secs(15 * 60);

impl Host {
    /// A host with all its state under `state`. Where the kernel has a sandbox, its git has only the access it needs to
    /// read what an agent left: a link of the agent leads nowhere.
    pub fn new(state: StateDir, git: Git, refs: RefNames, clock: Arc<dyn Clock>, confinement: &SandboxSummary) -> Self {
        let encloses = matches!(confinement, SandboxSummary::Kernel(_));
        Self { state, git, refs, clock, account: None, encloses }
    }

    /// The same, with worktrees that belong to another account of the machine.
    pub fn for_account(mut self, account: Option<Account>) -> Result<Self, AccountError> {
        if let Some(account) = &account {
            self.state.open_to(account)?;
        }
        self.account = account;
        Ok(self)
    }

    /// The layout of its state directory.
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// The names of the fleet's refs.
    pub fn refs(&self) -> &RefNames {
        &self.refs
    }

    /// Its clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The account that agents run under, if it is another.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// What git can access while it reads a worktree.
    pub(crate) fn sandbox(&self, worktree: &Worktree) -> Option<Sandbox> {
        let mirror = self.state.mirror(&worktree.mirror());
        let own = [
            (worktree.path(), PathAccess::Read),
            (worktree.metadata(), PathAccess::Everything),
            (&mirror, PathAccess::Everything),
        ];
        let all = || own.iter().fold(self.git.sandbox(), |sandbox, (path, reach)| sandbox.with(path, *reach));
        self.encloses.then(all)
    }

    /// The local mirror of a repository. Nothing is fetched yet.
    pub fn mirror(&self, repo: &RepoName, config: &RepoConfig) -> Result<Mirror, Error> {
        let repository = Repository::of(config).map_err(|source| Error::Remote { repo: repo.clone(), source })?;
        Ok(Mirror::new(self.clone(), repo.clone(), repository, config))
    }

    /// The worktree of a run, or `None` if there is none or it was never finished.
    pub fn worktree(&self, run: RunKey) -> Result<Option<Worktree>, Error> {
        Worktree::open(&self.state, run)
    }

    /// An empty directory for a run without a repository. It is removed like a worktree.
    pub fn scratch(&self, run: RunKey) -> Result<PathBuf, Error> {
        let folder = self.state.worktree(run);
        sandbox::make_private_folder(&folder).map_err(Error::disk("make", &folder))?;
        self.hand_over(&folder)?;
        Ok(folder)
    }

    /// A home directory for one run, removed with its worktree.
    pub fn home(&self, run: RunKey) -> Result<PathBuf, Error> {
        let folder = self.state.home(run);
        sandbox::make_private_folder(&folder).map_err(Error::disk("make", &folder))?;
        self.hand_over(&folder)?;
        Ok(folder)
    }

    /// A directory for temporary files in a run's home.
    pub fn own_temporary(&self, run: RunKey) -> Result<PathBuf, Error> {
        let home = self.state.home(run);
        let made = DirFd::open(&home).and_then(|home| home.make(TEMPORARY));
        made.map_err(Error::disk("make the temporary folder of", &home))?;
        self.hand_over(&home)?;
        Ok(home.join(TEMPORARY))
    }

    /// Listens on a socket in a run's home, which only the run's own account can enter. Setup commands ran there: what they
    /// left at these names is not followed.
    pub fn listen(&self, run: RunKey) -> Result<(UnixListener, PathBuf), Error> {
        let home = self.state.home(run);
        let path = home.join(TOOLS);
        let listen = || {
            let directory = DirFd::open(&home)?.make(TOOLS)?;
            directory.set_mode(0o700)?;
            directory.listen(SOCKET, &path)
        };
        let listener = listen().map_err(Error::disk("listen in", &path))?;
        self.hand_over(&home)?;
        Ok((listener, path.join(SOCKET)))
    }

    /// A directory that outlives worktrees, of one product's work on one repository.
    pub fn cache(&self, product: &ProductId, repo: &RepoName, name: &str) -> Result<PathBuf, Error> {
        let folder = self.state.cache(product, repo, name);
        if self.account.is_none() {
            sandbox::make_private_folder(&folder).map_err(Error::disk("make", &folder))?;
        }
        if let (Some(account), Ok(below)) = (&self.account, folder.strip_prefix(self.state.caches())) {
            account.give_below(&self.state.caches(), below.iter()).map_err(Error::disk("hand over", &folder))?;
        }
        Ok(folder)
    }

    /// Gives a directory to the account that agents run under.
    pub(crate) fn hand_over(&self, folder: &Path) -> Result<(), Error> {
        match &self.account {
            Some(account) => account.give(folder).map_err(Error::disk("hand over", folder)),
            None => Ok(()),
        }
    }

    /// Every run with a worktree here, complete or not, for the sweep at start.
    pub fn worktrees(&self) -> Result<Vec<RunKey>, Error> {
        let mut found = BTreeSet::new();
        for folder in [self.state.worktrees(), self.state.homes(), self.state.metadata_root()] {
            found.extend(runs_named_in(&folder)?);
        }
        Ok(found.into_iter().collect())
    }

    /// Removes a run's worktree and its metadata. Idempotent, also after a crash.
    pub async fn remove_worktree(&self, run: RunKey) -> Result<(), Error> {
        let known = self.worktree(run)?;
        let folders = [self.state.worktree(run), self.state.home(run), self.state.metadata(run)];
        let removed = tokio::task::spawn_blocking(move || {
            // The metadata goes last: until then the listing finds what a crash leaves.
            for folder in folders {
                remove_folder(&folder).map_err(Error::disk("remove", &folder))?;
            }
            Ok(())
        });
        removed.await.unwrap_or_else(|stopped| Err(Error::disk("remove", self.state.worktree(run))(stopped.into())))?;
        match known {
            Some(worktree) => self.forget_head(&worktree).await,
            None => Ok(()),
        }
    }

    async fn forget_head(&self, worktree: &Worktree) -> Result<(), Error> {
        let mirror = self.state.mirror(&worktree.mirror());
        if !mirror.is_dir() {
            return Ok(());
        }
        let lock = self.lock_mirror(&worktree.mirror()).await?;
        let forget = self.git.call(&mirror, "update-ref").under(&lock);
        Ok(forget.arg("-d").arg(worktree.head_ref()).done().await?)
    }

    /// Takes the lock around what all worktrees of a repository share, and removes stale lock files.
    pub(crate) async fn lock_mirror(&self, name: &MirrorName) -> Result<FileLock, Error> {
        let path = self.state.mirror_lock(name);
        let lock = FileLock::take(&path, &*self.clock, LOCK_PATIENCE).await?;
        // The lock's time records the mirror's last use.
        lock.sign().map_err(Error::disk("write", &path))?;
        self.clear_mirror(name, &lock)?;
        Ok(lock)
    }

    /// Removes stale lock files of a mirror; safe only for the holder of its lock.
    pub(crate) fn clear_mirror(&self, name: &MirrorName, _lock: &FileLock) -> Result<(), Error> {
        let mirror = self.state.mirror(name);
        let cleared = clear_locks(&mirror).map_err(Error::disk("clear", &mirror))?;
        if cleared > 0 {
            tracing::warn!("Removed {cleared} lock files that a killed git had left in the mirror `{name}`");
        }
        Ok(())
    }
}

fn runs_named_in(folder: &Path) -> Result<Vec<RunKey>, Error> {
    let entries = std::fs::read_dir(folder).map_err(Error::disk("list", folder))?;
    let mut runs = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::disk("list", folder))?;
        runs.extend(entry.file_name().to_str().and_then(|name| name.parse::<RunKey>().ok()));
    }
    Ok(runs)
}

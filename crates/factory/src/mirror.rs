//! A bare copy of a repository, shared by all worktrees of this host and touched only by the factory's own git.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{BranchName, CommitSha, JobId, RepoName};

use crate::config::{Identity, RepoConfig};
use crate::disk::{make_private_folder, remove_file, remove_folder, replace_file};
use crate::error::Error;
use crate::forge::BranchTemplate;
use crate::git::{Call, GitError, PROMISOR};
use crate::host::Host;
use crate::lock::FileLock;
use crate::refs::{OurRef, RefName};
use crate::remote::{Remote, Transport};

/// The local mirror of one repository.
#[derive(Clone)]
pub struct Mirror {
    pub(crate) host: Host,
    pub(crate) repo: RepoName,
    path: PathBuf,
    remote: Remote,
    /// What the branches of its pull requests are called, where not as usual.
    branch: Option<BranchTemplate>,
    /// Contents of files are fetched when they are needed.
    partial: bool,
    /// Contents of files in large file storage are fetched too.
    pub(crate) large_files: bool,
    /// Submodules are checked out too.
    pub(crate) submodules: bool,
}

/// A mirror's whole configuration. It names no remote and no program, so there is nothing in it to trust.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tlogAllRefUpdates = false\n";

/// The same where another account reads its objects: its group does, and nobody else.
const SHARED_CONFIG: &str =
    "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tlogAllRefUpdates = false\n\tsharedRepository = 0640\n";

/// Files that would change what git does in a mirror. We make none of them, so whoever did is not one of us.
const FOREIGN: [&str; 7] =
    ["config.worktree", "commondir", "gitdir", "hooks", "info", "shallow", "objects/info/alternates"];

/// A first fetch of a large repository may take all of git's own time limit; the next in line waits that long.
const LOCK_PATIENCE: Duration = Duration::from_secs(15 * 60);

impl Mirror {
    pub(crate) fn new(host: Host, repo: RepoName, remote: Remote, config: &RepoConfig) -> Self {
        let path = host.state.mirror(&repo);
        Self {
            host,
            repo,
            path,
            remote,
            branch: None,
            partial: config.partial,
            large_files: config.lfs,
            submodules: config.submodules,
        }
    }

    /// The same mirror, with branches and commits named as the repository wants them.
    #[must_use]
    pub fn named(mut self, branch: Option<BranchTemplate>, author: Option<Identity>) -> Self {
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Brings all branches up to date, but for those that belong to single runs. Makes the mirror the first time.
    pub async fn refresh(&self) -> Result<(), Error> {
        let _lock = self.lock().await?;
        self.seal()?;
        let fetch = self.fetch().arg("--prune");
        let fetch = if self.partial { fetch.arg("--filter=blob:none") } else { fetch };
        let mut fetch = fetch.arg("--end-of-options").arg(self.address());
        fetch = fetch.arg("+refs/heads/*:refs/remotes/origin/*");
        for pattern in self.host.refs.per_run_patterns() {
            fetch = fetch.arg(format!("^{pattern}"));
        }
        fetch.done().await?;
        self.share()
    }

    /// Fetches one ref, and gives the commit it shows now or `None` if the remote has no such ref.
    pub async fn fetch_ref(&self, name: &RefName) -> Result<Option<CommitSha>, Error> {
        let Some(shown) = self.remote_ref(name).await? else { return Ok(None) };
        if !self.has(&shown).await? {
            let _lock = self.lock().await?;
            let refspec = format!("+{name}:refs/remotes/origin/{}", name.short());
            self.fetch().arg("--end-of-options").arg(self.address()).arg(refspec).done().await?;
        }
        Ok(Some(shown))
    }

    /// What the remote shows for a ref at this moment.
    pub async fn remote_ref(&self, name: &RefName) -> Result<Option<CommitSha>, Error> {
        self.seal()?;
        let listing = self
            .remote_call("ls-remote")
            .args(["--refs", "--end-of-options", self.remote.url(), name.as_str()])
            .output()
            .await?;
        let listing = String::from_utf8(listing).map_err(|_| GitError::Garbled { verb: "ls-remote" })?;
        // Git matches the end of a name; only the name itself counts.
        let line = listing.lines().find_map(|line| line.split_once('\t').filter(|(_, shown)| *shown == name.as_str()));
        match line {
            Some((sha, _)) => Ok(Some(sha.parse().map_err(|_| GitError::Garbled { verb: "ls-remote" })?)),
            None => Ok(None),
        }
    }

    /// All refs of ours that the remote shows at this moment.
    pub(crate) async fn our_refs(&self) -> Result<Vec<(OurRef, RefName, CommitSha)>, Error> {
        self.seal()?;
        let mut list = self.remote_call("ls-remote").args(["--refs", "--end-of-options", self.remote.url()]);
        for pattern in self.host.refs.patterns() {
            list = list.arg(pattern);
        }
        let listing = String::from_utf8_lossy(&list.output().await?).into_owned();
        let ours = listing.lines().filter_map(|line| {
            let (sha, name) = line.split_once('\t')?;
            let (ours, name) = self.host.refs.parse(name)?;
            Some((ours, name, sha.parse().ok()?))
        });
        Ok(ours.collect())
    }

    /// Deletes those of `refs` that still show what is said here, and gives those that are left. Their commits stay in
    /// the mirror for a while.
    pub(crate) async fn delete_refs(&self, refs: &[(RefName, CommitSha)]) -> Result<BTreeSet<RefName>, Error> {
        if refs.is_empty() {
            return Ok(BTreeSet::new());
        }
        let mut fetch = self.fetch().args(["--end-of-options", self.address()]);
        for (name, _) in refs {
            fetch = fetch.arg(name.as_str());
        }
        {
            let _lock = self.lock().await?;
            fetch.done().await?;
        }
        let mut push = self.push();
        for (name, sha) in refs {
            push = push.arg(format!("--force-with-lease={name}:{sha}"));
        }
        push = push.args(["--end-of-options", self.url()]);
        for (name, _) in refs {
            push = push.arg(format!(":{name}"));
        }
        // Some may be refused and others not; what the remote shows afterwards is what happened.
        let pushed = push.done().await;
        let left: BTreeSet<RefName> = self.our_refs().await?.into_iter().map(|(_, name, _)| name).collect();
        let left: BTreeSet<RefName> =
            refs.iter().map(|(name, _)| name).filter(|name| left.contains(name)).cloned().collect();
        if let (Err(error), true) = (pushed, left.len() == refs.len()) {
            return Err(error.into());
        }
        for (name, _) in refs.iter().filter(|(name, _)| !left.contains(name)) {
            let local = format!("refs/remotes/origin/{}", name.short());
            self.call("update-ref").args(["-d", &local]).done().await?;
        }
        Ok(left)
    }

    /// Shows a commit under a ref again, unless somebody else has made it meanwhile.
    pub(crate) async fn put_back(&self, name: &RefName, sha: &CommitSha) -> Result<(), Error> {
        self.push_leased(name, None, Some(sha)).await.map(drop)
    }

    /// The head of a branch as last fetched.
    pub async fn head_of(&self, branch: &BranchName) -> Result<CommitSha, Error> {
        let name = format!("refs/remotes/origin/{branch}");
        let answer = self.call("rev-parse").args(["--verify", "--quiet", "--end-of-options", &name]).object().await;
        match answer {
            Ok(sha) => Ok(sha),
            Err(GitError::Failed { code: Some(1), .. }) => {
                Err(Error::NoSuchBranch { repo: self.repo.clone(), branch: branch.clone() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes sure that a recorded commit is here, fetching it if need be.
    pub(crate) async fn require(&self, sha: &CommitSha) -> Result<(), Error> {
        if self.has(sha).await? {
            return Ok(());
        }
        // Not every server gives out a commit by its name; if this one does not, some branch may still lead to it.
        let by_name = self.fetch().args(["--end-of-options", self.address(), sha.as_str()]).done().await;
        if by_name.is_err() {
            self.refresh().await?;
        }
        if self.has(sha).await? {
            return Ok(());
        }
        Err(Error::NoSuchCommit { repo: self.repo.clone(), sha: sha.clone() })
    }

    pub(crate) async fn has(&self, sha: &CommitSha) -> Result<bool, Error> {
        let answer = self.call("cat-file").arg("-e").arg(format!("{sha}^{{commit}}")).run().await?;
        Ok(answer.code() == Some(0))
    }

    /// Whether contents of files are fetched when they are needed.
    pub(crate) fn is_partial(&self) -> bool {
        self.partial
    }

    /// A git command on this mirror that talks to nobody.
    pub(crate) fn call(&self, verb: &'static str) -> Call<'_> {
        let call = self.host.git.call(&self.path, verb);
        if self.partial { call.lazily(&self.remote) } else { call }
    }

    /// The repository on the command line of a fetch. A partial mirror knows the remote by a name, so that git knows from
    /// whom it may ask for more later.
    fn address(&self) -> &str {
        if self.partial { PROMISOR } else { self.remote.url() }
    }

    /// A push to the remote; the caller adds options, then calls [`Mirror::url`] for the address.
    pub(crate) fn push(&self) -> Call<'_> {
        self.remote_call("push").args(["--quiet", "--no-verify", "--no-signed", "--no-recurse-submodules"])
    }

    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }

    pub(crate) fn url(&self) -> &str {
        self.remote.url()
    }

    /// A fetch into the mirror from another folder of this host.
    pub(crate) fn fetch_from_folder(&self) -> Call<'_> {
        quiet(self.call("fetch").transport(Transport::Folder))
    }

    /// Puts back what an agent of the same user could have changed. Making the mirror is the same as repairing it.
    pub(crate) fn seal(&self) -> Result<(), Error> {
        for folder in ["refs/heads", "objects/info", "objects/pack"] {
            let folder = self.path.join(folder);
            make_private_folder(&folder).map_err(Error::disk("make", &folder))?;
        }
        let config = if self.host.account.is_some() { SHARED_CONFIG } else { CONFIG };
        for (name, content) in [("HEAD", "ref: refs/heads/none\n"), ("config", config)] {
            let path = self.path.join(name);
            if fs::read(&path).ok().as_deref() != Some(content.as_bytes()) {
                replace_file(&path, content.as_bytes()).map_err(Error::disk("write", &path))?;
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

    /// Lets whoever works in the worktrees read the objects that they borrow.
    pub(crate) fn share(&self) -> Result<(), Error> {
        let Some(account) = &self.host.account else { return Ok(()) };
        account.let_read(&self.path).map_err(Error::disk("share", &self.path))
    }

    pub(crate) async fn lock(&self) -> Result<FileLock, Error> {
        let path = self.host.state.mirror_lock(&self.repo);
        let lock = FileLock::take(&path, &*self.host.clock, LOCK_PATIENCE).await?;
        // When a mirror was last in use is when its lock was last taken.
        lock.sign().map_err(Error::disk("write", &path))?;
        Ok(lock)
    }

    fn remote_call(&self, verb: &'static str) -> Call<'_> {
        self.call(verb).talking_to(&self.remote)
    }

    fn fetch(&self) -> Call<'_> {
        quiet(self.remote_call("fetch"))
    }
}

/// A fetch that takes no more than it is asked for.
pub(crate) fn quiet(fetch: Call<'_>) -> Call<'_> {
    fetch.args(["--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance"])
}

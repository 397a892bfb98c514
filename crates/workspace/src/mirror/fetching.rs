//! Fetches from the remote into the mirror.

use domain::{BranchName, CommitSha};

use super::Mirror;
use crate::error::Error;
use crate::git::{GitCommand, GitError, PROMISOR};
use crate::refs::RefName;

impl Mirror {
    /// Updates all branches except those of single runs. Creates the mirror the first time.
    pub async fn refresh(&self) -> Result<(), Error> {
        let lock = self.lock().await?;
        self.begin()?;
        self.seal()?;
        let fetch = self.fetch().under(&lock).arg("--prune");
        let fetch = if self.is_partial() { fetch.arg("--filter=blob:none") } else { fetch };
        let mut fetch = fetch.arg("--end-of-options").arg(self.address());
        fetch = fetch.arg("+refs/heads/*:refs/remotes/origin/*");
        for pattern in self.host.refs.per_run_patterns() {
            fetch = fetch.arg(format!("^{pattern}"));
        }
        fetch.done().await?;
        self.share()
    }

    /// Fetches one ref, and returns its commit, or `None` if the remote has no such ref.
    pub async fn fetch_ref(&self, name: &RefName) -> Result<Option<CommitSha>, Error> {
        let Some(shown) = self.remote_ref(name).await? else { return Ok(None) };
        if !self.has(&shown).await? {
            let lock = self.lock().await?;
            let refspec = format!("+{name}:refs/remotes/origin/{}", name.short());
            self.fetch().under(&lock).arg("--end-of-options").arg(self.address()).arg(refspec).done().await?;
        }
        Ok(Some(shown))
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

    /// Ensures that the mirror has a recorded commit, and fetches it if necessary.
    pub(crate) async fn require(&self, sha: &CommitSha) -> Result<(), Error> {
        if self.has(sha).await? {
            return Ok(());
        }
        // Not every server serves a commit by its name; if this one does not, some branch may still contain it.
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

    /// The repository argument of a fetch. A partial mirror uses a remote's name, so that git knows where to fetch more
    /// later.
    pub(super) fn address(&self) -> &str {
        if self.is_partial() { PROMISOR } else { self.remote.url() }
    }

    pub(super) fn fetch(&self) -> GitCommand<'_> {
        quiet(self.remote_call("fetch"))
    }
}

/// A fetch of the given refs only.
pub(crate) fn quiet(fetch: GitCommand<'_>) -> GitCommand<'_> {
    fetch.args(["--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance"])
}

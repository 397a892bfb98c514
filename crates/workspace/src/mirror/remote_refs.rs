//! The refs of the remote: listed, deleted and restored.

use std::collections::BTreeSet;

use domain::{BranchName, CommitSha};

use super::Mirror;
use crate::error::Error;
use crate::git::{GitCommand, GitError};
use crate::refs::{OurRef, RefName};

/// The receiving end of a push into a clone in which the operator works.
const RECEIVE_INTO_CLONE: &str = "--receive-pack=git -c receive.denyCurrentBranch=refuse \
    -c receive.denyDeleteCurrent=refuse receive-pack";

impl Mirror {
    /// The remote's current value of a ref.
    pub async fn remote_ref(&self, name: &RefName) -> Result<Option<CommitSha>, Error> {
        self.seal()?;
        let listing = self
            .remote_call("ls-remote")
            .args(["--refs", "--end-of-options", self.remote.url(), name.as_str()])
            .output()
            .await?;
        let listing = String::from_utf8(listing).map_err(|_| GitError::Garbled { verb: "ls-remote" })?;
        // Git matches the end of a name; only the exact name counts.
        let line = listing.lines().find_map(|line| line.split_once('\t').filter(|(_, shown)| *shown == name.as_str()));
        match line {
            Some((sha, _)) => Ok(Some(sha.parse().map_err(|_| GitError::Garbled { verb: "ls-remote" })?)),
            None => Ok(None),
        }
    }

    /// Whether the remote can be read and written to from here, as far as that shows without a change: by a listing of
    /// `name`, and a dry-run push to it.
    pub async fn probe(&self, name: &RefName, base: &BranchName) -> Result<(), Error> {
        self.remote_ref(name).await?;
        // A mirror that was never fetched has nothing to push.
        if let Ok(head) = self.head_of(base).await {
            let push = self.push().args(["--dry-run", "--end-of-options", self.url()]);
            push.arg(format!("+{head}:{name}")).done().await?;
        }
        Ok(())
    }

    /// All refs of the fleet on the remote.
    pub(crate) async fn our_refs(&self) -> Result<Vec<(OurRef, RefName, CommitSha)>, Error> {
        self.seal()?;
        let mut list = self.remote_call("ls-remote").args(["--refs", "--end-of-options", self.remote.url()]);
        for pattern in self.host.refs.patterns() {
            list = list.arg(pattern);
        }
        if let Some(template) = &self.branch {
            list = list.arg(template.pattern());
        }
        let listing = String::from_utf8_lossy(&list.output().await?).into_owned();
        let ours = listing.lines().filter_map(|line| {
            let (sha, name) = line.split_once('\t')?;
            let (ours, name) = self.host.refs.parse(name).or_else(|| self.parse_named(name))?;
            Some((ours, name, sha.parse().ok()?))
        });
        Ok(ours.collect())
    }

    /// Deletes those of `refs` that still have the given value, and returns those that are left. Their commits stay in
    /// the mirror for a while.
    pub(crate) async fn delete_refs(&self, refs: &[(RefName, CommitSha)]) -> Result<BTreeSet<RefName>, Error> {
        if refs.is_empty() {
            return Ok(BTreeSet::new());
        }
        {
            let lock = self.lock().await?;
            let mut fetch = self.fetch().under(&lock).args(["--end-of-options", self.address()]);
            for (name, _) in refs {
                fetch = fetch.arg(name.as_str());
            }
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
        // Some may be rejected and others not; the remote's refs afterwards decide.
        let pushed = push.done().await;
        let left: BTreeSet<RefName> = self.our_refs().await?.into_iter().map(|(_, name, _)| name).collect();
        let left: BTreeSet<RefName> =
            refs.iter().map(|(name, _)| name).filter(|name| left.contains(name)).cloned().collect();
        if let (Err(error), true) = (pushed, left.len() == refs.len()) {
            return Err(error.into());
        }
        let lock = self.lock().await?;
        for (name, _) in refs.iter().filter(|(name, _)| !left.contains(name)) {
            let local = format!("refs/remotes/origin/{}", name.short());
            self.call("update-ref").under(&lock).args(["-d", &local]).done().await?;
        }
        Ok(left)
    }

    /// Restores a ref to a commit, unless it was created again meanwhile.
    pub(crate) async fn put_back(&self, name: &RefName, sha: &CommitSha) -> Result<(), Error> {
        self.push_leased(name, None, Some(sha)).await.map(drop)
    }

    /// A push to the remote; the caller adds options, then calls [`Mirror::url`] for the URL.
    pub(crate) fn push(&self) -> GitCommand<'_> {
        let push = self.remote_call("push").args(["--quiet", "--no-verify", "--no-signed", "--no-recurse-submodules"]);
        // Whatever the clone's own settings allow, and whatever its operator checks out at this moment.
        if self.checkout.is_some() { push.arg(RECEIVE_INTO_CLONE) } else { push }
    }

    /// The branch of a job by the repository's template.
    fn parse_named(&self, name: &str) -> Option<(OurRef, RefName)> {
        let job = self.branch.as_ref()?.job(name.strip_prefix("refs/heads/")?)?;
        Some((OurRef::Job(job), self.pr_branch(job)))
    }

    pub(super) fn remote_call(&self, verb: &'static str) -> GitCommand<'_> {
        self.call(verb).talking_to(&self.remote)
    }
}

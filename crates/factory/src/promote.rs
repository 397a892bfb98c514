//! Moves the pull request's branch. Only a granted promotion may do so [F3].

use domain::{CommitSha, JobId};

use crate::error::Error;
use crate::mirror::Mirror;
use crate::refs::RefName;

/// What a pull request's branch showed when it was looked at. A promotion replaces this and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedBranch {
    name: RefName,
    shows: Option<CommitSha>,
}

impl ObservedBranch {
    /// Whether there was none.
    pub(crate) fn is_absent(&self) -> bool {
        self.shows.is_none()
    }
}

/// What a branch may show before a promotion, by what is recorded about its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptableBranch<'a> {
    /// Nothing, because no promotion is known to have succeeded; or one of these, because one may have.
    FirstTime(&'a [CommitSha]),
    /// One of these. A missing branch was deleted, perhaps because its job has shipped.
    OneOf(&'a [CommitSha]),
}

/// What came of a promotion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Promotion {
    /// The branch shows the commit, by this call or an earlier one.
    Promoted,
    /// There was no branch, and now there is one at the commit. A deleted branch looks like one that never existed, so
    /// the caller must check that the job is not finished.
    Created,
    /// The branch shows a commit that this promotion was not granted to replace. Nothing was changed.
    Moved {
        /// What it shows; `None` if it is gone.
        found: Option<CommitSha>,
    },
}

impl Mirror {
    /// Reads a job's branch on the remote. The caller checks its promotion after this: any later move of the branch
    /// makes the push fail.
    pub async fn look_at_branch(&self, job: JobId) -> Result<ObservedBranch, Error> {
        let name = self.pr_branch(job);
        let shows = self.remote_ref(&name).await?;
        Ok(ObservedBranch { name, shows })
    }

    /// Moves a branch to `sha`, if it showed something acceptable and still shows it.
    ///
    /// The remote itself compares, so of two promotions at once one sees the other's. Repeating it changes nothing.
    pub async fn promote(
        &self,
        seen: ObservedBranch,
        sha: &CommitSha,
        acceptable: AcceptableBranch<'_>,
    ) -> Result<Promotion, Error> {
        let ObservedBranch { name, shows } = seen;
        if shows.as_ref() == Some(sha) {
            return Ok(Promotion::Promoted);
        }
        if !acceptable.allows(shows.as_ref()) {
            return Ok(Promotion::Moved { found: shows });
        }
        self.require(sha).await?;
        match self.push_leased(&name, shows.as_ref(), Some(sha)).await? {
            LeasedPush::Done if shows.is_none() => Ok(Promotion::Created),
            LeasedPush::Done => Ok(Promotion::Promoted),
            LeasedPush::Lost { found } => Ok(Promotion::Moved { found }),
        }
    }

    /// Deletes a branch that a promotion has made too late, if it still shows what that promotion put there.
    pub async fn unmake_branch(&self, job: JobId, sha: &CommitSha) -> Result<(), Error> {
        self.push_leased(&self.pr_branch(job), Some(sha), None).await.map(drop)
    }

    /// Sets a remote ref to `new` (or deletes it) if it still shows `old` (or is absent).
    pub(crate) async fn push_leased(
        &self,
        name: &RefName,
        old: Option<&CommitSha>,
        new: Option<&CommitSha>,
    ) -> Result<LeasedPush, Error> {
        let shown = |sha: Option<&CommitSha>| sha.map_or("", |sha| sha.as_str()).to_owned();
        let lease = format!("--force-with-lease={name}:{}", shown(old));
        let refspec = format!("{}:{name}", shown(new));
        if let Some(path) = self.checked_out(name) {
            return Err(Error::CheckedOut { branch: name.short().to_owned(), path });
        }
        let pushed = self.push().arg(lease).args(["--end-of-options", self.url(), &refspec]).done().await;
        let Err(error) = pushed else { return Ok(LeasedPush::Done) };
        // The remote knows whether we lost a race, had our answer cut off, or met some other fault.
        let found = self.remote_ref(name).await?;
        if found.as_ref() == new {
            Ok(LeasedPush::Done)
        } else if found.as_ref() != old {
            Ok(LeasedPush::Lost { found })
        } else {
            Err(error.into())
        }
    }
}

impl AcceptableBranch<'_> {
    fn allows(self, shown: Option<&CommitSha>) -> bool {
        let (Self::FirstTime(known) | Self::OneOf(known)) = self;
        match shown {
            Some(shown) => known.contains(shown),
            None => matches!(self, Self::FirstTime(_)),
        }
    }
}

/// What came of a push that named the value it replaces.
pub(crate) enum LeasedPush {
    /// The ref shows the new value.
    Done,
    /// Another process moved it first.
    Lost {
        /// What it shows now.
        found: Option<CommitSha>,
    },
}

//! Moves the pull request's branch. Only a granted promotion may do so [F3].

use domain::{CommitSha, JobId};

use crate::error::Error;
use crate::mirror::Mirror;
use crate::refs::RefName;

/// The value of a pull request's branch when it was read. A promotion replaces this and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedBranch {
    name: RefName,
    shows: Option<CommitSha>,
}

impl ObservedBranch {
    /// Whether it was absent.
    pub fn is_absent(&self) -> bool {
        self.shows.is_none()
    }
}

/// The acceptable values of a branch before a promotion, by its job's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptableBranch<'a> {
    /// Absent, because no promotion is known to have succeeded; or one of these, because one may have.
    FirstTime(&'a [CommitSha]),
    /// One of these. A missing branch was deleted, perhaps because its job has shipped.
    OneOf(&'a [CommitSha]),
}

/// The outcome of a promotion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Promotion {
    /// The branch is at the commit, by this call or an earlier one.
    Promoted,
    /// There was no branch, and now there is one at the commit. A deleted branch looks like one that never existed, so
    /// the caller must check that the job is not finished.
    Created,
    /// The branch is at a commit that this promotion was not granted to replace. Nothing was changed.
    Moved {
        /// Its value; `None` if it is absent.
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

    /// Moves a branch to `sha`, if its value was acceptable and is unchanged.
    ///
    /// The remote itself compares, so of two concurrent promotions one fails. Idempotent.
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

    /// Deletes a branch that a promotion has made too late, if it is still at that promotion's commit.
    pub async fn unmake_branch(&self, job: JobId, sha: &CommitSha) -> Result<(), Error> {
        self.push_leased(&self.pr_branch(job), Some(sha), None).await.map(drop)
    }

    /// Sets a remote ref to `new` (or deletes it) if it is still `old` (or absent).
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
        // The remote's value decides: a lost race, a lost answer, or another error.
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

/// The outcome of a compare-and-swap push.
pub(crate) enum LeasedPush {
    /// The ref has the new value.
    Done,
    /// Another process moved it first.
    Lost {
        /// Its current value.
        found: Option<CommitSha>,
    },
}

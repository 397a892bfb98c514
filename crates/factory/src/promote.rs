//! Moving the pull request's branch, which nobody but a granted promotion may do [F3].

use domain::{CommitSha, JobId};

use crate::error::Error;
use crate::mirror::Mirror;
use crate::refs::RefName;

/// What came of a promotion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Promotion {
    /// The branch shows the commit, by this call or an earlier one.
    Promoted,
    /// The branch shows a commit that this promotion was not granted to replace. Nothing was changed.
    Moved {
        /// What it shows; `None` if it vanished meanwhile.
        found: Option<CommitSha>,
    },
}

impl Mirror {
    /// Moves the job's branch on the remote to `sha`, if it is absent or shows one of `acceptable_old`.
    ///
    /// The remote itself compares, so of two promotions at once one sees the other's. Repeating it changes nothing.
    pub async fn promote(&self, job: JobId, sha: &CommitSha, acceptable_old: &[CommitSha]) -> Result<Promotion, Error> {
        let branch = self.pr_branch(job);
        let found = self.remote_ref(&branch).await?;
        if found.as_ref() == Some(sha) {
            return Ok(Promotion::Promoted);
        }
        if found.as_ref().is_some_and(|found| !acceptable_old.contains(found)) {
            return Ok(Promotion::Moved { found });
        }
        self.require(sha).await?;
        match self.push_leased(&branch, found.as_ref(), Some(sha)).await? {
            Leased::Done => Ok(Promotion::Promoted),
            Leased::Lost { found } => Ok(Promotion::Moved { found }),
        }
    }

    /// Sets a remote ref to `new` (or deletes it) if it still shows `old` (or is absent).
    pub(crate) async fn push_leased(
        &self,
        name: &RefName,
        old: Option<&CommitSha>,
        new: Option<&CommitSha>,
    ) -> Result<Leased, Error> {
        let shown = |sha: Option<&CommitSha>| sha.map_or("", |sha| sha.as_str()).to_owned();
        let lease = format!("--force-with-lease={name}:{}", shown(old));
        let refspec = format!("{}:{name}", shown(new));
        let pushed = self.push().arg(lease).args(["--end-of-options", self.url(), &refspec]).done().await;
        let Err(error) = pushed else { return Ok(Leased::Done) };
        // The remote knows whether we lost a race, had our answer cut off, or met some other fault.
        let found = self.remote_ref(name).await?;
        if found.as_ref() == new {
            Ok(Leased::Done)
        } else if found.as_ref() != old {
            Ok(Leased::Lost { found })
        } else {
            Err(error.into())
        }
    }
}

/// What came of a push that named the value it replaces.
pub(crate) enum Leased {
    /// The ref shows the new value.
    Done,
    /// Somebody else moved it first.
    Lost {
        /// What it shows now.
        found: Option<CommitSha>,
    },
}

//! Merging a recorded commit into its base branch, without a working copy [F5].

use std::path::PathBuf;

use domain::{BranchName, CONFLICT_FILES_MAX, CommitSha, JobId, MergeConflict};

use crate::error::Error;
use crate::git::GitError;
use crate::mirror::Mirror;
use crate::promote::LeasedPush;
use crate::refs::RefName;

/// The subject of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShipOrder {
    /// The job.
    pub job: JobId,
    /// The commit that was completed, verified and reviewed [I15].
    pub sha: CommitSha,
    /// The branch it goes into.
    pub base: BranchName,
    /// The first lines of the merge commit.
    pub message: String,
    /// Whether the pull request's branch is deleted.
    pub after: AfterShip,
}

/// What to do with the pull request's branch after the merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterShip {
    /// It is deleted, if it is still at the merged commit.
    DeleteBranch,
    /// It stays.
    KeepBranch,
}

/// The outcome of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShipOutcome {
    /// The base branch contains the commit, by this call or an earlier one.
    Merged {
        /// The merge commit of the base branch.
        merge: CommitSha,
        /// The state of the pull request's branch.
        branch: BranchEnd,
    },
    /// The base branch is checked out in a clone without a remote, in which the operator works. Nothing was changed.
    CheckedOut {
        /// The worktree that has it checked out.
        path: PathBuf,
    },
    /// The commit and the base branch changed the same lines. Nothing was changed.
    Conflict(MergeConflict),
}

/// The state of the pull request's branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchEnd {
    /// It was deleted.
    Gone,
    /// It stays, as configured.
    Kept,
    /// It is at an unmerged commit, so it stays.
    HoldsMore {
        /// Its commit.
        found: CommitSha,
    },
    /// The remote rejected its deletion. The merge stands.
    Refused,
}

/// How often a merge is repeated when the base branch moves meanwhile.
const MERGE_ATTEMPTS_MAX: u32 = 5;

impl Mirror {
    /// Merges the recorded commit into the base branch with a merge commit. Idempotent.
    pub async fn ship(&self, order: &ShipOrder) -> Result<ShipOutcome, Error> {
        self.seal()?;
        let base = RefName::branch(&order.base);
        for _ in 0..MERGE_ATTEMPTS_MAX {
            let Some(onto) = self.fetch_ref(&base).await? else {
                return Err(Error::NoSuchBranch { repo: self.repo.clone(), branch: order.base.clone() });
            };
            self.require(&order.sha).await?;
            if self.contains(&onto, &order.sha).await? {
                let merge = self.merge_of(&onto, &order.sha).await?;
                return Ok(ShipOutcome::Merged {
                    merge,
                    branch: self.end_branch(order.job, &order.sha, order.after).await?,
                });
            }
            if let Some(path) = self.checked_out(&base) {
                return Ok(ShipOutcome::CheckedOut { path });
            }
            let merge = match self.merge(&onto, order).await? {
                Merge::Made(merge) => merge,
                Merge::Conflict(files) => {
                    return Ok(ShipOutcome::Conflict(MergeConflict {
                        base: order.base.clone(),
                        base_sha: onto,
                        files,
                    }));
                }
            };
            if let LeasedPush::Done = self.push_leased(&base, Some(&onto), Some(&merge)).await? {
                return Ok(ShipOutcome::Merged {
                    merge,
                    branch: self.end_branch(order.job, &order.sha, order.after).await?,
                });
            }
        }
        Err(Error::Contended { repo: self.repo.clone(), branch: order.base.clone() })
    }

    pub(crate) async fn contains(&self, tip: &CommitSha, sha: &CommitSha) -> Result<bool, Error> {
        Ok(self.call("merge-base").args(["--is-ancestor", sha.as_str(), tip.as_str()]).holds().await?)
    }

    /// The merge on the base branch that added `sha`; `sha` itself after a fast-forward.
    async fn merge_of(&self, tip: &CommitSha, sha: &CommitSha) -> Result<CommitSha, Error> {
        let excluded = format!("^{sha}");
        let listing = self
            .call("rev-list")
            .args(["--first-parent", "--merges", "--parents", tip.as_str(), &excluded])
            .output()
            .await?;
        let listing = String::from_utf8_lossy(&listing);
        let merge = listing.lines().find_map(|line| {
            let mut shas = line.split(' ');
            let merge = shas.next()?;
            shas.any(|parent| parent == sha.as_str()).then(|| merge.parse().ok())?
        });
        Ok(merge.unwrap_or_else(|| sha.clone()))
    }

    /// The conflict between a commit and the current base branch, if there is one.
    pub async fn conflict(&self, base: &BranchName, sha: &CommitSha) -> Result<Option<MergeConflict>, Error> {
        self.seal()?;
        let Some(onto) = self.fetch_ref(&RefName::branch(base)).await? else {
            return Err(Error::NoSuchBranch { repo: self.repo.clone(), branch: base.clone() });
        };
        self.require(sha).await?;
        Ok(match self.merged_tree(&onto, sha).await? {
            Ok(_) => None,
            Err(files) => Some(MergeConflict { base: base.clone(), base_sha: onto, files }),
        })
    }

    async fn merge(&self, onto: &CommitSha, order: &ShipOrder) -> Result<Merge, Error> {
        match self.merged_tree(onto, &order.sha).await? {
            Ok(tree) => {
                let message =
                    format!("{}\n\nGigafactory-Job: {}\n", order.message.trim().replace('\0', "\u{fffd}"), order.job);
                let parents = [onto.clone(), order.sha.clone()];
                Ok(Merge::Made(self.commit_tree(&tree, &parents, &message).await?))
            }
            Err(files) => Ok(Merge::Conflict(files)),
        }
    }

    /// The tree of a merge, or the files in conflict.
    async fn merged_tree(&self, onto: &CommitSha, sha: &CommitSha) -> Result<Result<CommitSha, Vec<String>>, Error> {
        let options = ["--write-tree", "--name-only", "--no-messages", "-z"];
        let answer = self.call("merge-tree").args(options).args([onto.as_str(), sha.as_str()]).run().await?;
        let text = String::from_utf8_lossy(answer.stdout()).into_owned();
        let mut parts = text.split('\0').filter(|part| !part.is_empty());
        match answer.code() {
            Some(0) => {
                let tree = parts.next().and_then(|tree| tree.trim().parse().ok());
                Ok(Ok(tree.ok_or(GitError::Garbled { verb: "merge-tree" })?))
            }
            Some(1) => Ok(Err(parts.skip(1).take(CONFLICT_FILES_MAX).map(domain::escape_for_terminal).collect())),
            _ => Err(answer.failure().into()),
        }
    }

    /// Never deletes what was not merged [I11]: the remote deletes only if the branch is still at the merged commit.
    pub async fn end_branch(&self, job: JobId, sha: &CommitSha, after: AfterShip) -> Result<BranchEnd, Error> {
        if after == AfterShip::KeepBranch {
            return Ok(BranchEnd::Kept);
        }
        let branch = self.pr_branch(job);
        match self.remote_ref(&branch).await? {
            None => Ok(BranchEnd::Gone),
            Some(found) if found != *sha => Ok(BranchEnd::HoldsMore { found }),
            Some(found) => match self.push_leased(&branch, Some(&found), None).await {
                Ok(LeasedPush::Done | LeasedPush::Lost { found: None }) => Ok(BranchEnd::Gone),
                Ok(LeasedPush::Lost { found: Some(found) }) => Ok(BranchEnd::HoldsMore { found }),
                Err(Error::Git(GitError::Failed { .. })) => Ok(BranchEnd::Refused),
                Err(error) => Err(error),
            },
        }
    }
}

enum Merge {
    Made(CommitSha),
    Conflict(Vec<String>),
}

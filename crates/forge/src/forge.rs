//! The interface of a forge, and what is sent through it.

use std::time::Duration;

use async_trait::async_trait;
use domain::{BranchName, CommitSha, JobId, PullRequest};
use protocol::PullRequestReport;

use crate::{ForgeError, MergeMethod};

/// The content of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestDraft {
    /// The job.
    pub job: JobId,
    /// The branch to merge, without `refs/heads/`.
    pub branch: String,
    /// The base branch.
    pub base: BranchName,
    /// One line.
    pub title: String,
    /// The rest.
    pub body: String,
    /// Whether it is a draft.
    pub draft: bool,
    /// Labels that it should have.
    pub labels: Vec<String>,
    /// Reviewers to request when it is first opened; `acme/core` names a team.
    pub reviewers: Vec<String>,
}

/// The subject and method of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeOrder {
    /// The number of the pull request.
    pub request: u64,
    /// The commit that was completed, verified and reviewed [I15].
    pub sha: CommitSha,
    /// The merge method.
    pub method: MergeMethod,
    /// The first line of that commit.
    pub title: String,
    /// Its other lines.
    pub message: String,
    /// Whether the forge merges it by itself once it may.
    pub auto: AutoMerge,
}

/// Whether the forge merges by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoMerge {
    /// As soon as its own rules are met.
    WhenAllowed,
    /// Never.
    Never,
}

/// The outcome of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The base branch holds it, by this call or an earlier one.
    Merged,
    /// The forge does not allow it yet: checks are running, or mergeability is not computed.
    NotYet {
        /// What it waits for.
        message: String,
        /// When to ask again.
        after: Duration,
    },
    /// It conflicts with its base branch.
    Conflicts,
    /// It cannot be merged as it is.
    Refused {
        /// Why, and which checks.
        message: String,
    },
}

/// A place for pull requests of one repository.
#[async_trait]
pub trait Forge: Send + Sync {
    /// Opens the pull request of a branch, or updates the open one. Idempotent.
    async fn open(&self, proposal: &PullRequestDraft) -> Result<PullRequest, ForgeError>;

    /// The open pull request of a branch.
    async fn find(&self, branch: &str) -> Result<Option<PullRequest>, ForgeError>;

    /// Comments the job's state: one comment per job, edited, never a second one.
    async fn say(&self, request: u64, job: JobId, text: &str) -> Result<(), ForgeError>;

    /// Merges a pull request if its head is the expected commit.
    async fn merge(&self, order: &MergeOrder) -> Result<MergeOutcome, ForgeError>;

    /// The size of the repository in bytes.
    async fn size(&self) -> Result<u64, ForgeError>;

    /// The state of a pull request, with its checks and reviews.
    async fn read_pull_request(&self, number: u64) -> Result<PullRequestReport, ForgeError>;
}

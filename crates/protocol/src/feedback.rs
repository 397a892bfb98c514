//! Reports of factories about pull requests, and the coordinator's response [B5].

use domain::{CommitSha, JobId, ProductId, RepoName, StageName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Directs a factory to poll a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PollPullRequest {
    /// The job.
    pub job_id: JobId,
    /// The product that owns the job.
    pub product_id: ProductId,
    /// The repository.
    pub repo: RepoName,
    /// The number of its pull request.
    pub number: u64,
    /// The promoted commit.
    pub sha: CommitSha,
}

/// A factory's report about a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestReport {
    /// Its number.
    pub number: u64,
    /// Its state.
    pub pull_request: PullRequestState,
    /// The commit at the head of its branch.
    pub head: CommitSha,
    /// Failed checks and comments, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<ReviewComment>,
    /// Approving reviews: the last decision of each reviewer, while the pull request is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ForgeApproval>,
}

/// An approving review of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForgeApproval {
    /// The reviewer's login on the forge.
    pub login: String,
    /// The commit that was reviewed.
    pub sha: CommitSha,
}

/// The state of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum PullRequestState {
    /// Neither merged nor closed.
    Open,
    /// Merged.
    Merged {
        /// The merge commit on the base branch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        merge: Option<CommitSha>,
        /// The user who merged it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Closed without a merge.
    Closed,
}

/// One failed check, or one comment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewComment {
    /// A stable id, such as `check:17`.
    pub id: String,
    /// Check or comment.
    pub kind: ReviewCommentKind,
    /// The check's name, or the comment's author.
    pub from: String,
    /// The location in the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The text.
    pub text: String,
}

/// The kind of a review comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReviewCommentKind {
    /// A check that failed.
    Check,
    /// A reviewer's comment.
    Comment,
}

/// The coordinator's answer to a pull request report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestReportResponse {
    /// The job's stage.
    pub stage: StageName,
    /// A comment to post on the pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

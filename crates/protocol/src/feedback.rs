//! What a factory sees on a pull request, and what the coordinator makes of it [B5].

use domain::{CommitSha, JobId, ProductId, RepoName, StageName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A pull request to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PollPullRequest {
    /// The job.
    pub job_id: JobId,
    /// Whose it is.
    pub product_id: ProductId,
    /// The repository.
    pub repo: RepoName,
    /// The number of its pull request.
    pub number: u64,
    /// The commit that the branch was moved to.
    pub sha: CommitSha,
}

/// What a factory saw on a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestReport {
    /// Its number.
    pub number: u64,
    /// How it stands.
    pub pull_request: PullRequestState,
    /// The commit that its branch shows.
    pub head: CommitSha,
    /// What somebody or something says about it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<ReviewComment>,
}

/// How a pull request stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum PullRequestState {
    /// Neither merged nor closed.
    Open,
    /// Merged.
    Merged {
        /// The commit of the base branch that brought it in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        merge: Option<CommitSha>,
        /// Who merged it.
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
    /// Names it for ever, such as `check:17`.
    pub id: String,
    /// What it is.
    pub kind: ReviewCommentKind,
    /// The check's name, or who wrote the comment.
    pub from: String,
    /// The place in the code that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What it says.
    pub text: String,
}

/// What a remark is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReviewCommentKind {
    /// A check that failed.
    Check,
    /// A reviewer's comment.
    Comment,
}

/// What the coordinator makes of a sighting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestReportResponse {
    /// Where the job is now.
    pub stage: StageName,
    /// What to say on the pull request, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

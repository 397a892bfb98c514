//! The fields of GitHub's answers that the factory reads.

use domain::{CommitSha, PullRequest};
use serde::Deserialize;

/// A repository.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Repository {
    /// In kibibytes.
    pub(super) size: u64,
}

/// A pull request.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct GhPullRequest {
    pub(super) number: u64,
    #[serde(default)]
    pub(super) node_id: String,
    pub(super) html_url: String,
    #[serde(default)]
    pub(super) body: Option<String>,
    pub(super) state: String,
    #[serde(default)]
    pub(super) draft: bool,
    #[serde(default)]
    pub(super) merged: bool,
    #[serde(default)]
    pub(super) merged_by: Option<User>,
    #[serde(default)]
    pub(super) merge_commit_sha: Option<CommitSha>,
    #[serde(default)]
    pub(super) mergeable: Option<bool>,
    #[serde(default)]
    pub(super) mergeable_state: Option<String>,
    #[serde(default)]
    pub(super) labels: Vec<Label>,
    pub(super) head: Head,
}

impl GhPullRequest {
    pub(super) fn public(&self) -> PullRequest {
        PullRequest { number: self.number, url: self.html_url.clone() }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Head {
    pub(super) sha: CommitSha,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct User {
    pub(super) login: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Label {
    pub(super) name: String,
}

/// A comment, in a conversation or on a line of code.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Comment {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) user: Option<User>,
    #[serde(default)]
    pub(super) author_association: String,
    #[serde(default)]
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) line: Option<u64>,
    /// `2026-11-16T03:00:00Z`: sorts by time.
    #[serde(default)]
    pub(super) created_at: String,
}

/// A review.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Review {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) user: Option<User>,
    #[serde(default)]
    pub(super) author_association: String,
    pub(super) state: String,
    #[serde(default)]
    pub(super) submitted_at: String,
    #[serde(default)]
    pub(super) commit_id: Option<String>,
}

/// A page of check runs.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct CheckRuns {
    pub(super) check_runs: Vec<CheckRun>,
}

/// A check that ran, or runs.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct CheckRun {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) conclusion: Option<String>,
    #[serde(default)]
    pub(super) output: CheckOutput,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct CheckOutput {
    #[serde(default)]
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) summary: Option<String>,
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) annotations_count: u64,
}

/// An annotation of a check.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Annotation {
    #[serde(default)]
    pub(super) path: String,
    #[serde(default)]
    pub(super) start_line: Option<u64>,
    #[serde(default)]
    pub(super) message: Option<String>,
}

/// A commit status of an older service.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Statuses {
    #[serde(default)]
    pub(super) statuses: Vec<Status>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Status {
    pub(super) id: u64,
    pub(super) state: String,
    pub(super) context: String,
    #[serde(default)]
    pub(super) description: Option<String>,
}

/// GitHub's error body.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ApiErrorBody {
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) errors: Vec<serde_json::Value>,
}

/// The answer to a GraphQL query.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Graph {
    #[serde(default)]
    pub(super) errors: Vec<GraphError>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct GraphError {
    #[serde(default)]
    pub(super) message: String,
}

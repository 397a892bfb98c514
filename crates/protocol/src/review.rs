//! Reviews of completed work in the API [T5].

use domain::{CommitSha, Job, Stage, Timestamp, Vote, VoteDecision};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A vote on completed work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VoteRequest {
    /// The decision.
    pub decision: VoteDecision,
    /// The commit that was reviewed: `review.sha` of the job. A vote on another commit is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<CommitSha>,
    /// For work without a commit, the run that was reviewed: `review.run` of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub run: Option<u32>,
    /// A comment; required with `changes`, because the agent works by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Requests a review of finished work, or a stricter one. What is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReviewRequest {
    /// Required approvals; 1 for a job without a review.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10)]
    pub quorum: Option<u32>,
    /// The people whose approvals count; anyone but the author when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 32)]
    pub reviewers: Vec<String>,
    /// A message for the reviewers, recorded in the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The review of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobReview {
    /// Required approvals.
    pub quorum: u32,
    /// The people whose approvals count; anyone but the author when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviewers: Vec<String>,
    /// The author: the person that submitted the job.
    pub author: String,
    /// Approvals of the last completed work.
    pub approvals: u32,
    /// The votes on the last completed work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
    /// The commit to review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<CommitSha>,
    /// The run that completed the work.
    pub run: u32,
    /// Since when the job waits for its reviewers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Timestamp>,
}

impl JobReview {
    /// The review of a job; `None` if it requires none.
    pub fn of(job: &Job) -> Option<Self> {
        let review = job.required_review()?;
        let is_waiting = matches!(job.stage(), Stage::Review { .. });
        Some(Self {
            quorum: review.quorum,
            reviewers: review.reviewers.clone(),
            author: job.author().to_owned(),
            approvals: job.approvals(),
            votes: job.votes().to_vec(),
            sha: job.completed().cloned(),
            run: job.runs(),
            waiting_since: job.person_wait().filter(|_| is_waiting).map(|wait| wait.since),
        })
    }
}

impl JobReview {
    /// `1 of 2 approvals`
    pub fn progress(&self) -> String {
        format!("{} of {}", self.approvals, domain::counted(self.quorum, "approval"))
    }

    /// Names the work under review in a vote: its commit, or its run if it has none.
    pub fn vote(&self, decision: VoteDecision, comment: Option<String>) -> VoteRequest {
        let run = self.sha.is_none().then_some(self.run);
        VoteRequest { decision, sha: self.sha.clone(), run, comment }
    }
}

/// Whether the caller may vote on a job in review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VoteRight {
    /// Whether the caller may vote.
    pub allowed: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// The caller's vote so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cast: Option<VoteDecision>,
}

//! What needs a person: `GET /needs-me`, and the answer to a question.

use domain::{FactoryId, JobId, ProductId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::review::JobReview;

/// One thing that needs a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Need {
    /// Identifies the item for as long as it lasts.
    pub key: String,
    /// The kind.
    pub kind: NeedKind,
    /// The title of the job, or the name of the factory or the credential.
    pub title: String,
    /// What is asked, in one sentence.
    pub text: String,
    /// What to do.
    pub remedy: String,
    /// Since when.
    pub at: Timestamp,
    /// The job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The factory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factory_id: Option<FactoryId>,
    /// The product of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_id: Option<ProductId>,
    /// The credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// What the job has cost so far, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The review, with the commit to name in a vote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<JobReview>,
    /// What the caller may do about it.
    pub actions: Vec<NeedAction>,
}

/// The kinds of things that need a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NeedKind {
    /// An agent asks a question.
    Question,
    /// The work of a job waits for review.
    Review,
    /// The coordinator stopped retrying a promotion or merge.
    MergeFailed,
    /// No factory is eligible for a job.
    Unplaceable,
    /// A job is dead-lettered.
    DeadLetter,
    /// A job failed.
    Failed,
    /// The work of a job is verified and waits for its merge.
    ReadyToShip,
    /// A pull request used up its feedback rounds.
    PullRequestAbandoned,
    /// A factory sent no heartbeat for too long.
    StaleFactory,
    /// The account of a credential has no credit left.
    CredentialExhausted,
    /// A product is paused by its budget, or has spent most of it.
    Budget,
    /// Any other alert.
    Alert,
}

impl NeedKind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Question,
        Self::Review,
        Self::MergeFailed,
        Self::Unplaceable,
        Self::DeadLetter,
        Self::Failed,
        Self::ReadyToShip,
        Self::PullRequestAbandoned,
        Self::StaleFactory,
        Self::CredentialExhausted,
        Self::Budget,
        Self::Alert,
    ];

    /// The name in JSON and queries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Review => "review",
            Self::MergeFailed => "merge_failed",
            Self::Unplaceable => "unplaceable",
            Self::DeadLetter => "dead_letter",
            Self::Failed => "failed",
            Self::ReadyToShip => "ready_to_ship",
            Self::PullRequestAbandoned => "pull_request_abandoned",
            Self::StaleFactory => "stale_factory",
            Self::CredentialExhausted => "credential_exhausted",
            Self::Budget => "budget",
            Self::Alert => "alert",
        }
    }
}

impl std::str::FromStr for NeedKind {
    type Err = UnknownNeedKind;

    fn from_str(text: &str) -> Result<Self, UnknownNeedKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| UnknownNeedKind(text.to_owned()))
    }
}

/// The text names no kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownNeedKind(String);

impl std::fmt::Display for UnknownNeedKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = NeedKind::ALL.map(NeedKind::name).join(", ");
        write!(f, "unknown kind `{}`: use one of {known}", domain::escape_for_terminal(&self.0))
    }
}

impl std::error::Error for UnknownNeedKind {}

/// What a person can do about an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NeedAction {
    /// `POST /jobs/{id}/answer`.
    Answer,
    /// `POST /jobs/{id}/review`.
    Review,
    /// The action `requeue` of the job.
    Requeue,
    /// The action `ship` of the job.
    Ship,
    /// The action `cancel` of the job.
    Cancel,
    /// `POST /jobs/{id}/dismiss`.
    Dismiss,
    /// `POST /dead-letters/{id}/redrive`.
    Redrive,
    /// The action `reject` of the job.
    Reject,
    /// The action `request-changes` of the job.
    RequestChanges,
    /// `POST /factories/{id}/drain`.
    Drain,
    /// `POST /factories/prune`.
    Prune,
    /// `POST /credentials/resume`.
    ResumeCredential,
}

/// What needs the caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NeedList {
    /// Blocked people and money first, then by age.
    pub items: Vec<Need>,
    /// The number of items on all pages.
    #[schema(minimum = 0)]
    pub total: u64,
    /// Whether `total` counts every failure. With more than 1,000, the newest of them are listed.
    pub is_exact: bool,
    /// The `cursor` of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl NeedList {
    /// The number of items, as shown to people.
    pub fn total_text(&self) -> String {
        format!("{}{}", self.total, if self.is_exact { "" } else { "+" })
    }
}

/// An answer to the question of a job's agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerRequest {
    /// The answer. Empty: the agent decides by itself.
    pub text: String,
}

/// Why a failure is dismissed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DismissRequest {
    /// The reason, recorded in the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_by_the_name_that_it_is_written_with() {
        for kind in NeedKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("questions".parse::<NeedKind>().is_err());
    }
}

//! The review of completed work: who may vote, and how votes count [T5].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::CommitSha;
use crate::time::Timestamp;

/// The largest quorum. Votes are part of the job's document, which every change rewrites.
pub const QUORUM_MAX: u32 = 10;

/// The most reviewers that one review names.
pub const REVIEWERS_MAX: usize = 32;

/// The longest name of a person.
pub const PERSON_CHARS_MAX: usize = 100;

/// Required review before testing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// Number of required approvals.
    pub quorum: u32,
    /// Allowed reviewers; every person except the author when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviewers: Vec<String>,
}

impl Review {
    /// Whether a person is among the reviewers.
    pub fn names(&self, person: &str) -> bool {
        self.reviewers.is_empty() || self.reviewers.iter().any(|reviewer| is_same_person(reviewer, person))
    }

    /// Whether enough people may vote on work of this author.
    pub fn is_reachable(&self, author: &str) -> bool {
        let mut others: Vec<String> = self.reviewers.iter().map(|name| person_key(name)).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|name| *name != person_key(author));
        self.reviewers.is_empty() || others.len() >= self.quorum as usize
    }

    /// Whether this review asks for at least as much as another: no fewer approvals, and of no further people.
    pub fn is_at_least(&self, other: &Self) -> bool {
        let is_narrower = other.reviewers.is_empty()
            || !self.reviewers.is_empty() && self.reviewers.iter().all(|reviewer| other.names(reviewer));
        self.quorum >= other.quorum && is_narrower
    }
}

/// The vote of one person on one commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Vote {
    /// The person: the owner of the token that it was cast with.
    pub by: String,
    /// The decision.
    pub decision: VoteDecision,
    /// The reviewer's comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The commit that was reviewed; absent for work without a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<CommitSha>,
    /// The run whose work was reviewed.
    pub run: u32,
    /// Time of the vote.
    pub at: Timestamp,
    /// Whether it was cast on the forge's pull request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_forge: bool,
}

impl Vote {
    /// Whether this is a vote on a commit, or on the work of a run without one.
    pub fn is_for(&self, sha: Option<&CommitSha>, run: u32) -> bool {
        self.sha.as_ref() == sha && (sha.is_some() || self.run == run)
    }
}

/// The decision of a reviewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum VoteDecision {
    /// The work may ship.
    Approve,
    /// The work goes back to its branch and session, with the comment.
    Changes,
    /// The job ends.
    Reject,
}

impl VoteDecision {
    /// The name in JSON and commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Changes => "changes",
            Self::Reject => "reject",
        }
    }
}

/// Since when a job waits for a person, and how often it has reminded of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonWait {
    /// The beginning of the wait.
    pub since: Timestamp,
    /// Recorded reminders.
    #[serde(default)]
    pub reminders: u32,
}

/// Whether two names mean the same person: case and surrounding or repeated spaces do not matter.
pub fn is_same_person(one: &str, other: &str) -> bool {
    person_key(one) == person_key(other)
}

fn person_key(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(quorum: u32, reviewers: &[&str]) -> Review {
        Review { quorum, reviewers: reviewers.iter().map(|&name| name.to_owned()).collect() }
    }

    // [T5]
    #[test]
    fn spelling_does_not_make_a_second_person() {
        assert!(is_same_person("Ada  Lovelace ", "ada lovelace"));
        assert!(!is_same_person("ada", "eve"));
        assert!(review(1, &["ADA"]).names("ada"));
        assert!(!review(2, &["ada", " Ada", "bob"]).is_reachable("BOB"));
    }

    // [T5]
    #[test]
    fn a_quorum_must_be_reachable_without_the_author() {
        assert!(review(2, &["ada", "bob"]).is_reachable("eve"));
        assert!(!review(2, &["ada", "bob"]).is_reachable("bob"));
        assert!(review(3, &[]).is_reachable("bob"));
    }

    // [T5]
    #[test]
    fn a_review_can_only_become_stricter() {
        assert!(review(2, &["ada"]).is_at_least(&review(1, &[])));
        assert!(review(1, &["ada"]).is_at_least(&review(1, &["ada", "bob"])));
        assert!(!review(1, &[]).is_at_least(&review(1, &["ada"])));
        assert!(!review(1, &["eve"]).is_at_least(&review(1, &["ada"])));
        assert!(!review(1, &[]).is_at_least(&review(2, &[])));
    }
}

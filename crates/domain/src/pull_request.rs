//! A job's pull request and its feedback [B5].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A pull request on a forge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequest {
    /// Its number in its repository.
    pub number: u64,
    /// Its URL.
    pub url: String,
}

/// Maximum number of remembered feedback items. A round has a few dozen at most.
const ANSWERED_MAX: usize = 256;

/// Handled feedback of a pull request, to avoid duplicates and endless rounds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Feedback {
    /// Number of feedback rounds.
    rounds: u32,
    /// Ids of the handled checks and comments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    answered: Vec<String>,
    /// The rounds are used up; a maintainer has to act.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    escalated: bool,
}

impl Feedback {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    pub(crate) fn is_escalated(&self) -> bool {
        self.escalated
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.answered.iter().any(|known| known == id)
    }

    /// Counts a round for these items.
    pub(crate) fn count_round(&mut self, ids: Vec<String>) {
        self.rounds += 1;
        self.remember(ids);
    }

    /// Ends the rounds: these items are left to a maintainer.
    pub(crate) fn escalate(&mut self, ids: Vec<String>) {
        self.escalated = true;
        self.remember(ids);
    }

    /// Restarts the rounds after a maintainer acted.
    pub(crate) fn begin_again(&mut self) {
        self.rounds = 0;
        self.escalated = false;
    }

    fn remember(&mut self, ids: Vec<String>) {
        self.answered.extend(ids);
        let surplus = self.answered.len().saturating_sub(ANSWERED_MAX);
        self.answered.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handled_feedback_is_bounded_and_keeps_the_newest() {
        let mut feedback = Feedback::default();

        for n in 0..1_000 {
            feedback.count_round(vec![format!("check:{n}")]);
        }

        assert_eq!(feedback.answered.len(), ANSWERED_MAX);
        assert!(feedback.knows("check:999") && !feedback.knows("check:0"));
    }
}

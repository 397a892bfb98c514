//! What a job knows about its pull request: where it is, and what came back from it [B5].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The request on a forge to merge a job's branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequest {
    /// Its number in its repository.
    pub number: u64,
    /// Where a person finds it.
    pub url: String,
}

/// How many things are remembered that came back from a pull request. A round holds a few dozen at most.
const ANSWERED_MAX: usize = 256;

/// What came back from a pull request, so that nothing is acted upon twice and nothing goes on for ever.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Feedback {
    /// How often the job was sent back for it.
    rounds: u32,
    /// The checks and comments that it was sent back for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    answered: Vec<String>,
    /// Too often: a person has to look.
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

    /// One more round, for these.
    pub(crate) fn count_round(&mut self, ids: Vec<String>) {
        self.rounds += 1;
        self.remember(ids);
    }

    /// No more rounds: these were for nobody.
    pub(crate) fn escalate(&mut self, ids: Vec<String>) {
        self.escalated = true;
        self.remember(ids);
    }

    /// A person has looked, so that the rounds begin again.
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
    fn what_is_remembered_is_bounded_and_the_newest_stays() {
        let mut feedback = Feedback::default();

        for n in 0..1_000 {
            feedback.count_round(vec![format!("check:{n}")]);
        }

        assert_eq!(feedback.answered.len(), ANSWERED_MAX);
        assert!(feedback.knows("check:999") && !feedback.knows("check:0"));
    }
}

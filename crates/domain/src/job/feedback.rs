//! Feedback of a job's pull request.

use serde_json::json;

use super::Job;
use crate::event::{Actor, EventKind};
use crate::pull_request::PullRequest;
use crate::refusal::Refusal;
use crate::stage::StageEvent;
use crate::time::Timestamp;

impl Job {
    /// Records the pull request.
    #[must_use]
    pub fn with_pull_request(mut self, request: PullRequest) -> Self {
        self.state.pull_request = Some(request);
        self
    }

    /// Starts a feedback round: sends the job back to the queue. `summary` is for people, `changes` for the agent.
    pub fn sent_back(
        self,
        ids: Vec<String>,
        summary: String,
        changes: String,
        at: Timestamp,
        by: Actor,
    ) -> Result<Self, Refusal> {
        let mut job = self.apply(StageEvent::ChangesRequested { message: Some(summary) }, at, by)?;
        job.state.changes = Some(changes);
        job.state.feedback.count_round(ids);
        Ok(job)
    }

    /// Ends the feedback rounds: a maintainer has to act. The stage does not change.
    #[must_use]
    pub fn escalated(mut self, ids: Vec<String>, message: String, at: Timestamp, by: Actor) -> Self {
        self.state.feedback.escalate(ids);
        self.record(EventKind::Escalated, at, by, json!({ "message": message, "rounds": self.feedback_rounds() }));
        self.state.message = Some(message);
        self
    }

    /// Starts a rework round for the conflict of the last merge. The merge is requested again after the rework.
    pub fn reworked_for_conflict(self, message: String, at: Timestamp, by: Actor) -> Result<Self, Refusal> {
        let mut job = self.apply(StageEvent::ChangesRequested { message: Some(message) }, at, by)?;
        // The conflict describes the required changes.
        job.state.changes = None;
        job.state.conflict_rounds += 1;
        job.state.ship_after_rework = true;
        Ok(job)
    }

    /// Resets the feedback and conflict rounds after an operator acted on the job.
    #[must_use]
    pub fn with_new_rounds(mut self) -> Self {
        self.state.feedback.begin_again();
        self.state.conflict_rounds = 0;
        self.state.ship_after_rework = false;
        self
    }
}

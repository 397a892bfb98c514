//! What a job's pull request brings with it.

use serde_json::json;

use super::Job;
use crate::event::{Actor, EventKind};
use crate::pull_request::PullRequest;
use crate::refusal::Refusal;
use crate::stage::StageEvent;
use crate::time::Timestamp;

impl Job {
    /// Writes down where the pull request is.
    #[must_use]
    pub fn with_pull_request(mut self, request: PullRequest) -> Self {
        self.state.pull_request = Some(request);
        self
    }

    /// Sends the job back for what came from its pull request: one more round. `summary` is for people, `changes` for
    /// whoever works on it next.
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

    /// Gives up on satisfying the pull request: a person has to look. The job stays where it is.
    #[must_use]
    pub fn escalated(mut self, ids: Vec<String>, message: String, at: Timestamp, by: Actor) -> Self {
        self.state.feedback.escalate(ids);
        self.record(EventKind::Escalated, at, by, json!({ "message": message, "rounds": self.feedback_rounds() }));
        self.state.message = Some(message);
        self
    }

    /// Starts a rework round for the merge conflict that the job's last merge ended with. The merge is requested again once
    /// the rework is completed.
    pub fn reworked_for_conflict(self, message: String, at: Timestamp, by: Actor) -> Result<Self, Refusal> {
        let mut job = self.apply(StageEvent::ChangesRequested { message: Some(message) }, at, by)?;
        // The conflict itself is what has to be changed.
        job.state.changes = None;
        job.state.conflict_rounds += 1;
        job.state.ship_after_rework = true;
        Ok(job)
    }

    /// An operator acted on it: its pull request and merge conflicts may send it back as often as at first.
    #[must_use]
    pub fn with_new_rounds(mut self) -> Self {
        self.state.feedback.begin_again();
        self.state.conflict_rounds = 0;
        self.state.ship_after_rework = false;
        self
    }
}

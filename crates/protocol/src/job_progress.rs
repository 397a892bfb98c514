//! When there is nothing left to wait for.

use domain::StageName;

use crate::jobs::JobView;

impl JobView {
    /// Whether the job is blocked on a question.
    pub fn asks(&self) -> bool {
        self.stage == StageName::Blocked && self.question.is_some()
    }

    /// Whether the job has finished or waits for an operator.
    pub fn is_settled(&self) -> bool {
        let may_settle = matches!(self.stage, StageName::Review | StageName::Testing);
        self.stage.is_terminal() || self.asks() || (may_settle && self.errand.is_none())
    }

    /// Whether the work is done and waits for its reviewers.
    pub fn waits_for_review(&self) -> bool {
        self.stage == StageName::Review && self.errand.is_none()
    }

    /// Whether the job failed, or needs a person to continue. Finished work that can be shipped is neither.
    pub fn needs_person(&self) -> bool {
        let has_failed = matches!(self.stage, StageName::Failed | StageName::DeadLetter);
        has_failed
            || self.waits_for_review()
            || self.asks()
            || self.failed_dependency.is_some()
            || self.is_merge_given_up()
    }

    /// Whether the coordinator stopped trying to push or merge the work.
    pub fn is_merge_given_up(&self) -> bool {
        self.merge_failure.as_ref().is_some_and(|failure| failure.given_up)
    }
}

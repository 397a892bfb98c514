//! Obstacles: a failed merge, a failed dependency, and dismissed failures [I9].

use serde_json::json;

use super::Job;
use crate::event::{Actor, EventKind};
use crate::ids::JobId;
use crate::lease::ErrandKind;
use crate::merge_failure::{ConflictingJob, ERRAND_TRIES_MAX, FailedErrand, MergeFailure};
use crate::reason::FailureReason;
use crate::refusal::Refusal;
use crate::stage::{BlockedOn, Stage};
use crate::time::Timestamp;

impl Job {
    /// The last failed promotion or merge, until one succeeds or is requested again.
    pub fn merge_failure(&self) -> Option<MergeFailure> {
        let is_done = matches!(self.state.stage, Stage::Review { .. } | Stage::Testing { .. });
        let given_up = self.is_merge_failed();
        let failed = match (&self.state.failed_errand, given_up) {
            _ if !is_done => return None,
            (Some(failed), _) => failed.clone(),
            // Documents of earlier versions have only the message.
            (None, true) => FailedErrand {
                errand: if self.promoted() == self.completed() { ErrandKind::Ship } else { ErrandKind::Promote },
                message: self.message().unwrap_or("no reason was reported").to_owned(),
                conflicts_with: None,
            },
            (None, false) => return None,
        };
        let tries = self.errand().map_or(ERRAND_TRIES_MAX, |errand| errand.tries);
        let conflict = self.merge_conflict();
        Some(MergeFailure {
            errand: failed.errand,
            message: failed.message,
            base: conflict.map(|conflict| conflict.base.clone()),
            base_sha: conflict.map(|conflict| conflict.base_sha.clone()),
            files: conflict.map(|conflict| conflict.files.clone()).unwrap_or_default(),
            conflicts_with: failed.conflicts_with,
            tries_left: if given_up { 0 } else { ERRAND_TRIES_MAX.saturating_sub(tries) },
            given_up,
        })
    }

    /// Names the shipped job that the failed merge conflicts with.
    #[must_use]
    pub fn conflicting_with(mut self, other: Option<ConflictingJob>) -> Self {
        if let Some(failed) = &mut self.state.failed_errand {
            failed.conflicts_with = other;
        }
        self
    }

    /// The failed dependency that a blocked job waits for.
    pub fn failed_dependency(&self) -> Option<JobId> {
        let is_blocked = matches!(self.state.stage, Stage::Blocked { on: BlockedOn::Deps });
        self.state.failed_dependency.filter(|_| is_blocked)
    }

    /// Records a dependency's failure, or its recovery, in a blocked job.
    #[must_use]
    pub fn with_failed_dependency(mut self, dependency: Option<JobId>, at: Timestamp, by: Actor) -> Self {
        self.state.failed_dependency = dependency;
        let kind = match dependency {
            Some(_) => EventKind::DependencyFailed,
            None => EventKind::DependencyRecovered,
        };
        self.record(kind, at, by, json!({ "dep": dependency }));
        self
    }

    /// Whether the failure was dismissed: the job keeps its stage, and leaves the lists and the alerts.
    pub fn is_dismissed(&self) -> bool {
        self.state.dismissed && self.has_failed()
    }

    /// Whether the job failed or was dead-lettered and no operator has attended to it: neither dismissed nor ended by a
    /// person.
    pub fn is_unattended_failure(&self) -> bool {
        match &self.state.stage {
            Stage::Failed { reason: FailureReason::Cancelled | FailureReason::Rejected } => false,
            _ => self.has_failed() && !self.state.dismissed,
        }
    }

    fn has_failed(&self) -> bool {
        matches!(self.state.stage, Stage::Failed { .. } | Stage::DeadLetter { .. })
    }

    /// Dismisses a failure. The job can still be requeued.
    pub fn dismiss(mut self, message: Option<&str>, at: Timestamp, by: Actor) -> Result<Self, Refusal> {
        if !self.has_failed() {
            let stage = self.state.stage.name();
            return Err(Refusal::IllegalTransition { stage, event: "dismissed", allowed: stage.moves().to_vec() });
        }
        self.state.dismissed = true;
        self.record(EventKind::Dismissed, at, by, json!({ "message": message }));
        Ok(self)
    }

    /// Whether the verify commands of the manifest ran on the completed work. They passed, or it would not be completed.
    pub fn is_verified(&self) -> bool {
        let is_completed = self.state.completed_epoch.is_some();
        // Documents of earlier versions lack the flag.
        is_completed && self.state.verified.unwrap_or(!self.submission.spec.verify.is_empty())
    }
}

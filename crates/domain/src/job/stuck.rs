//! What keeps a job from moving on: a failed merge, a failed dependency; and dead letters that were dismissed [I9].

use serde_json::json;

use super::Job;
use crate::event::{Actor, EventKind};
use crate::ids::JobId;
use crate::lease::ErrandKind;
use crate::merge_failure::{ConflictingJob, ERRAND_TRIES_MAX, FailedErrand, MergeFailure};
use crate::refusal::Refusal;
use crate::stage::{BlockedOn, Stage};
use crate::time::Timestamp;

impl Job {
    /// The promotion or merge that failed last, until one succeeds or is asked for anew.
    pub fn merge_failure(&self) -> Option<MergeFailure> {
        let is_done = matches!(self.state.stage, Stage::Review { .. } | Stage::Testing { .. });
        let given_up = self.is_merge_failed();
        let failed = match (&self.state.failed_errand, given_up) {
            _ if !is_done => return None,
            (Some(failed), _) => failed.clone(),
            // Documents of earlier versions have the message alone.
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

    /// The dependency that failed and without which a blocked job cannot go on.
    pub fn failed_dependency(&self) -> Option<JobId> {
        let is_blocked = matches!(self.state.stage, Stage::Blocked { on: BlockedOn::Deps });
        self.state.failed_dependency.filter(|_| is_blocked)
    }

    /// Records that a blocked job cannot go on because a dependency failed, or that it can again.
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

    /// Whether a dead-lettered job was dismissed: it stays where it is, and leaves the list and the alert.
    pub fn is_dismissed(&self) -> bool {
        self.state.dismissed && matches!(self.state.stage, Stage::DeadLetter { .. })
    }

    /// Takes a dead-lettered job off the list of dead letters. It can still be requeued.
    pub fn dismiss(mut self, message: Option<&str>, at: Timestamp, by: Actor) -> Result<Self, Refusal> {
        if !matches!(self.state.stage, Stage::DeadLetter { .. }) {
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
        // Documents of earlier versions do not say.
        is_completed && self.state.verified.unwrap_or(!self.submission.spec.verify.is_empty())
    }
}

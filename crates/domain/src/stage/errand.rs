//! Transitions of promotions and merges.

use super::{StageEvent, StageName, accept};
use crate::lease::{Errand, ErrandKind, ErrandState};
use crate::names::CommitSha;
use crate::refusal::Refusal;

/// Whether an event is about an errand rather than about the job.
pub(super) fn is_errand(event: &StageEvent) -> bool {
    matches!(
        event,
        StageEvent::Dispatched { .. }
            | StageEvent::ErrandGranted { .. }
            | StageEvent::ErrandDone { .. }
            | StageEvent::ErrandFailed { .. }
            | StageEvent::ErrandPutOff { .. }
            | StageEvent::ErrandExpired { .. }
    )
}

impl Errand {
    /// An errand that was not offered yet.
    pub fn waiting(kind: ErrandKind, sha: CommitSha) -> Self {
        Self { kind, sha, state: ErrandState::Waiting { not_before: None }, tries: 0, put_offs: 0 }
    }

    /// The errand after `event`; `None` when it is done.
    pub(super) fn apply(self, event: &StageEvent) -> Result<Option<Self>, Refusal> {
        use StageEvent as E;
        let tries = self.tries;
        let in_state = |state| Some(Self { state, tries, ..self.clone() });
        match (&self.state, event) {
            (ErrandState::Waiting { .. }, E::Dispatched { dispatch }) => {
                Ok(in_state(ErrandState::Dispatched { dispatch: dispatch.clone() }))
            }
            (ErrandState::Dispatched { dispatch }, E::ErrandGranted { lease, until }) => {
                accept(Some(dispatch.clone()), lease)?;
                Ok(in_state(ErrandState::Held { lease: lease.clone(), until: *until }))
            }
            (ErrandState::Held { .. }, E::ErrandGranted { .. }) => Err(Refusal::AlreadyGranted),
            (ErrandState::Waiting { .. }, E::ErrandGranted { lease, .. }) => {
                Err(Refusal::SupersededDispatch { shown: lease.seq, current: None })
            }
            (ErrandState::Held { .. }, E::ErrandDone { .. }) => Ok(None),
            (ErrandState::Held { .. }, E::ErrandFailed { retry_at: Some(at), .. }) => {
                let state = ErrandState::Waiting { not_before: Some(*at) };
                Ok(Some(Self { state, tries: tries + 1, put_offs: 0, ..self }))
            }
            (ErrandState::Held { .. }, E::ErrandFailed { retry_at: None, .. }) => Ok(None),
            (ErrandState::Held { .. }, E::ErrandPutOff { retry_at, .. }) => {
                let state = ErrandState::Waiting { not_before: Some(*retry_at) };
                Ok(Some(Self { state, put_offs: self.put_offs.saturating_add(1), ..self }))
            }
            // Only reported attempts count: a lost factory proves nothing about the merge.
            (ErrandState::Dispatched { dispatch }, E::ErrandExpired { seq, .. }) if dispatch.seq == *seq => {
                Ok(in_state(ErrandState::Waiting { not_before: None }))
            }
            (ErrandState::Held { lease, .. }, E::ErrandExpired { seq, .. }) if lease.seq == *seq => {
                Ok(in_state(ErrandState::Waiting { not_before: None }))
            }
            (_, event) => Err(Refusal::IllegalTransition {
                stage: StageName::Testing,
                event: event.name(),
                allowed: StageName::Testing.moves().to_vec(),
            }),
        }
    }
}

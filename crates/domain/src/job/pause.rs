//! A job that an operator has paused: it is not dispatched, and neither are the jobs below it [J4].

use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::Job;
use crate::event::{Actor, EventKind};
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// Why a job is paused. A running one finishes its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobPause {
    /// The operator.
    pub by: String,
    /// When it was paused.
    pub at: Timestamp,
    /// The reason that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Job {
    /// The pause of the job itself. One above it in its tree holds it as well.
    pub fn pause(&self) -> Option<&JobPause> {
        self.state.pause.as_deref()
    }

    /// Pauses the job.
    pub fn paused(mut self, message: Option<String>, at: Timestamp, by: &str) -> Result<Self, Refusal> {
        let stage = self.stage().name();
        if stage.is_terminal() {
            return Err(Refusal::JobEnded { stage });
        }
        let data = json!({ "message": message });
        self.state.pause = Some(Box::new(JobPause { by: by.to_owned(), at, message }));
        self.record(EventKind::Paused, at, Actor::Person(by.to_owned()), data);
        Ok(self)
    }

    /// Ends the pause.
    #[must_use]
    pub fn resumed(mut self, at: Timestamp, by: &str) -> Self {
        self.state.pause = None;
        self.record(EventKind::Resumed, at, Actor::Person(by.to_owned()), serde_json::Value::Null);
        self
    }
}

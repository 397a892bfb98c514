//! Agent engines: what each of them adds to running a program [F2].

mod command;
mod event;
mod run;

use std::path::PathBuf;

use async_trait::async_trait;
use domain::{EngineName, Epoch, FailureReason, Insights, JobId, Timestamp};

pub use command::{CommandEngine, TemplateError};
pub use event::EngineEvent;
pub use run::{EngineError, EngineOutput, EngineRun, EngineRunEnd};

use crate::process::{Finished, Line, Program};

/// One kind of agent. Knows its program, its stream and its endings; never starts a process for a job by itself.
#[async_trait]
pub trait Engine: Send + Sync {
    /// The name that jobs ask for it by.
    fn name(&self) -> &EngineName;
    /// Whether it could run here, in the environment that it would get.
    async fn detect(&self) -> Presence;
    /// The program for one run, and the ear that follows what it says.
    fn command(&self, request: &EngineRequest) -> Result<(Program, Box<dyn Session>), EngineError>;
}

/// Follows one run of an engine from its first line to its end.
pub trait Session: Send {
    /// What a line of output means. Most lines mean nothing to us.
    fn translate(&mut self, line: &Line) -> Vec<EngineEvent>;
    /// What the run came to. An engine that says "done" has only claimed so.
    fn judge(&mut self, finished: &Finished) -> Judgement;
    /// What it cost so far, as far as the engine tells.
    fn insights(&self) -> Insights;
}

/// What an engine is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineRequest {
    /// The job.
    pub job: JobId,
    /// The epoch it is held under.
    pub epoch: Epoch,
    /// Which attempt at the job this is, from 1.
    pub attempt: u32,
    /// The job's title.
    pub title: String,
    /// The prompt.
    pub prompt: String,
    /// The model, if the job asks for one.
    pub model: Option<String>,
    /// The engine's own session to resume, if there is one.
    pub session: Option<String>,
    /// Where it works.
    pub worktree: PathBuf,
}

/// Whether an engine could run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// It is there.
    Ready {
        /// The version it prints, where asking is cheap.
        version: Option<String>,
    },
    /// It is not.
    Missing {
        /// What is missing, for people.
        why: String,
    },
}

/// What a run of an engine came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It claims to be done.
    EndedWell,
    /// It failed.
    Failed {
        /// Why, in the words of the job.
        reason: FailureReason,
        /// Whether it may be worth another attempt.
        again: Again,
        /// What happened, for people.
        message: String,
    },
    /// It waits for a person.
    Asked {
        /// The question.
        question: String,
    },
    /// Its credential's usage window is used up [B1].
    QuotaWindow {
        /// When the window opens again, if the engine says so.
        resets_at: Option<Timestamp>,
    },
    /// We were asked to stop it.
    Stopped,
}

/// Whether another attempt may end differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// It may.
    Worthwhile,
    /// It would end the same way.
    Pointless,
}

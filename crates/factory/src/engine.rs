//! Agent engines: what each of them adds to running a program [F2].
//!
//! An engine detects itself, makes the command of a run, and gives a [`Session`] that translates what the program says
//! and judges its end. [`EngineRun`] does what all of them have in common: it starts the program, carries lines both
//! ways, holds the run to its limits and asks the session for its judgement. One file for each engine.

mod acp;
mod activity;
mod claude;
mod codex;
mod command;
mod devin;
mod error_patterns;
mod event;
mod limits;
mod output_metrics;
mod price_list;
mod prices;
mod registry;
mod request;
mod reset_time;
mod room;
mod run;
mod stream;
mod turn_counter;
mod verdict;

use std::path::PathBuf;

use async_trait::async_trait;
pub use domain::Retryability;
use domain::{EngineName, JobId, RunInsights};

pub use acp::{AcpEngine, Permissions};
pub use activity::Activity;
pub(crate) use activity::FILES_MAX;
pub use claude::ClaudeEngine;
pub use codex::CodexEngine;
pub use command::{CommandEngine, TemplateError};
pub use devin::DevinEngine;
pub use event::{EngineEvent, RateLimit, Target, Usage, WindowState};
pub use prices::{Prices, Tokens};
pub use registry::{EngineContext, presences};
pub(crate) use registry::{login_folders, make_all};
pub use request::{Allowance, DiskAllowance, EngineRequest};
pub(crate) use room::{is_note, is_unsettled, settle_rooms};
pub use run::{EngineError, EngineOutput, EngineRun, EngineRunEnd};
pub use verdict::{Exit, RunVerdict};

use crate::process::{Line, Program};

/// One kind of agent. Knows its program, its stream and its endings; never starts a process for a job by itself.
#[async_trait]
pub trait Engine: Send + Sync {
    /// The name that jobs ask for it by.
    fn name(&self) -> &EngineName;
    /// Whose usage windows it uses up [B1]: an opaque id, the same on every factory that shares it. Without one they are
    /// this factory's own.
    fn credential(&self) -> Option<&str> {
        None
    }
    /// What this factory itself knows those windows by.
    fn window_key(&self) -> &str {
        self.credential().unwrap_or(self.name().as_str())
    }
    /// The files that hold its credential, present or not: a change of one may be a sign-in or a sign-out.
    fn login_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// A fingerprint of the key or credential that it uses, where it has one: it changes when they do.
    fn login_fingerprint(&self) -> Option<String> {
        None
    }
    /// Whether it could run here, in the environment that it would get.
    async fn detect(&self) -> Presence;
    /// What an interrupted run of a job used, according to the files that the engine left. Reported once: a second
    /// call, or a run that resumes the session, does not count it again.
    fn left_behind(&self, _job: JobId, _session: &str) -> Option<RunInsights> {
        None
    }
    /// The program for one run, and the ear that follows what it says.
    fn command(&self, request: &EngineRequest) -> Result<(Program, Box<dyn Session>), EngineError>;
}

/// Follows one run of an engine from its first line to its end.
///
/// What comes out of the program is written by an agent that may be confused or hostile: no line may make a session
/// panic, or keep more than it needs. No method has a body here: a session around another one must not forget any.
pub trait Session: Send {
    /// What a line of output means. A line that is for people is an [`EngineEvent::Output`].
    fn translate(&mut self, line: &Line) -> Vec<EngineEvent>;
    /// What is to be said to the program now. Asked at the start and after each line, until it gives nothing more. A
    /// program that reads only its prompt hears nothing else.
    fn reply(&mut self) -> Reply;
    /// What is said to a program that is to stop, before it is made to. Nothing to one that is not spoken with.
    fn farewell(&mut self) -> Option<Vec<u8>>;
    /// Takes in what the program has left on disk so far. Asked every few seconds while it runs.
    fn look(&mut self);
    /// The program is over, however it ended, or never began: takes in what it has left on disk.
    fn settle(&mut self);
    /// What the run came to, when no limit of ours ended it. An engine that says "done" has only claimed so.
    fn judge(&mut self, exit: Exit) -> RunVerdict;
    /// What it cost so far, as far as the engine tells.
    fn insights(&self) -> RunInsights;
    /// What the program is waiting for, as far as its stream tells.
    fn pending(&self) -> Pending;
}

/// What a program that says nothing is waiting for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pending {
    /// The model's next answer, or the program does not tell.
    Answer,
    /// A tool call, which may take long and say nothing.
    ToolCall,
    /// The provider, which it cannot reach or which does not answer; in the program's words.
    Provider(String),
}

/// What a session says through the program's standard input, after the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nothing for now.
    Wait,
    /// These bytes.
    Say(Vec<u8>),
    /// Nothing any more: the input is closed.
    HangUp,
}

/// Whether an engine could run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// It is there.
    Ready {
        /// The version it prints, where asking is cheap.
        version: Option<String>,
        /// Whether the engine is signed in.
        login: LoginState,
    },
    /// It is not.
    Missing {
        /// What is missing, for people.
        why: String,
    },
}

/// Whether an engine has a paying account [B9].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginState {
    /// It cannot be told without spending something.
    Unknown,
    /// It has a credential.
    SignedIn,
    /// It has none.
    SignedOut {
        /// What to do about it, for people.
        why: String,
    },
    /// The disk does not tell whether it has one.
    Unreadable {
        /// What went wrong with which file, for people.
        why: String,
    },
}

//! What every engine has to do.

use std::path::PathBuf;

use async_trait::async_trait;
use domain::{EngineName, JobId, RunInsights};
use sandbox::{Line, Program};

use crate::{EngineError, EngineEvent, EngineRequest, Exit, RunVerdict};

/// One kind of agent. Knows its program, its stream and its exit; never starts a process for a job by itself.
#[async_trait]
pub trait Engine: Send + Sync {
    /// The name in manifests.
    fn name(&self) -> &EngineName;
    /// Whose usage windows it uses [B1]: an opaque id, the same on every factory that shares the credential. Without
    /// one they are this factory's own.
    fn credential(&self) -> Option<&str> {
        None
    }
    /// How that credential is billed, if it is configured.
    fn billing(&self) -> Option<domain::Billing> {
        None
    }
    /// This factory's own name for those windows.
    fn window_key(&self) -> &str {
        self.credential().unwrap_or(self.name().as_str())
    }
    /// The files that hold its credential, present or not: a change of one may be a sign-in or a sign-out.
    fn login_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// A fingerprint of its key or credential, if it has one: it changes when they do.
    fn login_fingerprint(&self) -> Option<String> {
        None
    }
    /// Whether it could run here, in the environment of its runs.
    async fn detect(&self) -> Presence;
    /// What an interrupted run of a job used, according to the files that the engine left. Reported once: a second
    /// call, or a run that resumes the session, does not count it again.
    fn left_behind(&self, _job: JobId, _session: &str) -> Option<RunInsights> {
        None
    }
    /// The program for one run, and the session that follows its output.
    fn command(&self, request: &EngineRequest) -> Result<(Program, Box<dyn Session>), EngineError>;
}

/// Follows one run of an engine from its first line to its end.
///
/// The output is written by an agent that may be confused or hostile: no line may make a session panic, or make it keep
/// more than it needs. No method has a default body: a session that wraps another one must not forget any.
pub trait Session: Send {
    /// The meaning of a line of output. A line for people is an [`EngineEvent::Output`].
    fn translate(&mut self, line: &Line) -> Vec<EngineEvent>;
    /// The next input for the program. Called at the start and after each line, until it returns nothing more. A
    /// program that reads only its prompt gets no other input.
    fn reply(&mut self) -> Reply;
    /// The input that asks a program to stop, before a signal. None for a program without a dialogue.
    fn farewell(&mut self) -> Option<Vec<u8>>;
    /// Reads what the program has written to disk so far. Called every few seconds while it runs.
    fn poll_files(&mut self);
    /// The program has ended, or never started: reads what it left on disk.
    fn settle(&mut self);
    /// The verdict on the run, when no limit ended it. An engine that reports "done" has only claimed so.
    fn judge(&mut self, exit: Exit) -> RunVerdict;
    /// The cost so far, if the engine reports it.
    fn insights(&self) -> RunInsights;
    /// What the program is waiting for, according to its stream.
    fn pending(&self) -> Pending;
}

/// What a silent program is waiting for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pending {
    /// The model's next answer, or unknown.
    Answer,
    /// A tool call, which may be long and silent.
    ToolCall,
    /// The provider, which is unavailable; in the program's words.
    Provider(String),
}

/// A session's input to the program, after the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nothing for now.
    Wait,
    /// These bytes.
    Say(Vec<u8>),
    /// End of input: it is closed.
    HangUp,
}

/// Whether an engine could run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// It is available.
    Ready {
        /// The version it prints, if that is cheap to query.
        version: Option<String>,
        /// Whether the engine is signed in.
        login: LoginState,
    },
    /// It is not available.
    Missing {
        /// What is missing, for people.
        why: String,
    },
}

/// Whether an engine has a paying account [B9].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginState {
    /// Unknown without spending something.
    Unknown,
    /// It has a credential.
    SignedIn,
    /// It has none.
    SignedOut {
        /// The remedy, for people.
        why: String,
    },
    /// An I/O error hides whether it has one.
    Unreadable {
        /// The error and its file, for people.
        why: String,
    },
}

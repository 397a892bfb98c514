//! The worker: it detects what its machine can do, receives jobs from a coordinator, runs an engine in a worktree for
//! each, verifies and publishes the result, reports, and recovers after a crash.
//!
//! The order of a run is `Mirror::refresh` → `Mirror::create` → an engine through `EngineRun` → [`run_commands`] →
//! `Mirror::commit_all` → `Mirror::push_run` → `Mirror::promote`. Only [`Worker`] talks to a coordinator.

mod detect;
mod verify;
mod watch;
mod worker;

pub use detect::{BrokenTool, Capabilities, DetectConfig, detect};
pub use verify::{CommandsVerdict, run_commands};
pub use watch::DirectoryWatch;
pub use worker::{
    Housekeeping, PollBackoff, PollMode, PollResult, PollTrigger, PollWhen, Polling, RunToolsCommand, Worker,
    WorkerError, WorkerSettings,
};

//! A worker host: mirrors, worktrees, engines, verification, the state that must survive a crash, and the worker that
//! connects them to a coordinator.
//!
//! The order of a run is `Host::mirror` → `Mirror::refresh` → `Mirror::create` → an engine through `Launcher` →
//! `run_commands` → `Mirror::commit_all` → `Mirror::push_run` → `Mirror::promote`. Only [`Worker`] talks to a
//! coordinator.

mod detect;
mod verify;
mod watch;
mod worker;

pub use detect::{BrokenTool, Capabilities, DetectConfig, detect};
pub use verify::{CommandsVerdict, run_commands};
pub use watch::DirectoryWatch;
pub use worker::{
    Housekeeping, PollBackoff, PollMode, PollResult, PollTrigger, PollWhen, Polling, Worker, WorkerError,
    WorkerSettings,
};

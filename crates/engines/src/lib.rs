//! Agent engines: what each of them adds to running a program [F2].
//!
//! An engine detects itself, builds the command of a run, and returns a [`Session`] that translates the program's
//! output and judges its end. [`EngineRun`] does what all of them have in common: it starts the program, transfers
//! lines in both directions, enforces the limits and asks the session for its verdict. One file for each engine, with
//! its descriptor; `descriptor` lists them all.

mod acp;
mod activity;
mod claude;
mod codex;
mod command;
mod config;
mod descriptor;
mod devin;
mod engine;
mod error_patterns;
mod event;
mod home;
mod limits;
mod output_metrics;
mod price_list;
mod prices;
mod prompt;
mod registry;
mod request;
mod reset_time;
mod run;
mod stream;
mod turn_counter;
mod verdict;

pub use acp::{AcpEngine, Permissions};
pub use activity::{Activity, FILES_MAX};
pub use claude::ClaudeEngine;
pub use codex::CodexEngine;
pub use command::{CommandEngine, TemplateError};
pub use config::{EngineConfig, OutputPattern, OutputPatterns, Price};
pub use descriptor::EngineKind;
pub use devin::DevinEngine;
pub use engine::{Engine, LoginState, Pending, Presence, Reply, Session};
pub use event::{EngineEvent, RateLimit, Target, Usage, WindowState};
pub use home::{has_credential_note, is_credential_note, recover_credentials};
pub use prices::{Prices, Tokens};
pub use prompt::{BaseBranch, Memory, Prompt, WorktreeState};
pub use registry::{EngineContext, login_folders, make_all, presences};
pub use request::{Allowance, DiskAllowance, EngineRequest, ToolServer};
pub use run::{EngineError, EngineOutput, EngineRun, EngineRunEnd};
pub use verdict::{Exit, RunVerdict};

//! A worker host: mirrors, worktrees, engines, verification, what must survive a crash, and the station that ties them
//! to a coordinator.
//!
//! The order of a run is `Host::mirror` → `Mirror::refresh` → `Mirror::create` → an engine through `Launcher` →
//! `run_commands` → `Mirror::commit_all` → `Mirror::push_run` → `Mirror::promote`. Only [`Station`] talks to a coordinator.

mod branch_intents;
mod diff;
mod config;
mod detect;
mod disk;
mod engine;
mod error;
mod dirfd;
mod forge;
mod gc;
mod git;
pub mod guard;
mod host;
mod large_files;
mod unsaved_files;
mod lock;
mod prior_merge;
mod mirror;
mod outbox;
mod partial_clone;
mod pending_merge;
mod process;
mod promote;
mod prompt;
mod publish;
mod refs;
mod remote;
mod repository;
mod pr_template;
mod run_key;
mod runs;
mod scrub;
mod ship;
mod snapshot;
mod state;
mod worker;
mod stray_branches;
mod submodules;
mod toolchains;
mod changed_files;
mod verify;
mod watch;
mod workspace;

pub use config::{
    CacheError, EngineConfig, EngineKind, EnvironmentConfig, GitConfig, Identity, IdentityError, Limits, Price, OutputPattern,
    OutputPatterns, RepoConfig,
};
pub use detect::{BrokenTool, DetectConfig, Capabilities, detect};
pub use engine::{
    AcpEngine, Activity, Retryability, Allowance, EngineContext, ClaudeEngine, CodexEngine, CommandEngine, DevinEngine, DiskAllowance,
    Engine, EngineError, EngineEvent, EngineOutput, EngineRequest, EngineRun, EngineRunEnd, Exit, RunVerdict, LoginState,
    Pending, Permissions, Presence, Prices, RateLimit, Reply, Session, Target, TemplateError, Tokens, Usage,
    WindowState, presences,
};
pub use error::Error;
pub use forge::{
    AutoMerge, BranchTemplate, BranchTemplateError, Forge, ForgeConfig, ForgeError, ForgeKind, Forges, ForgesError,
    GhConfig, MergeMethod, MergeOrder, MergeOutcome, PullRequestDraft, PullRequestConfig, Slug, SlugError, TokenSource,
};
pub use gc::{Gc, GcItem, GcKind, GcPlan, GcReport};
pub use git::{Git, GitError, OperatorAccess};
pub use host::Host;
pub use unsaved_files::{UnsavedFile, UnsavedReason};
pub use mirror::Mirror;
pub use outbox::{Outbox, OutboxEntry, OutboxListing};
pub use process::{
    Account, AccountError, Bounds, SandboxMode, SandboxSummary, End, Environment, FinishedProgram, Launcher, Line, SandboxBackend,
    ProcessMark, Program, RunningProgram, Source, StartError, hide_from_siblings, kill_leftovers,
};
pub use promote::{AcceptableBranch, Promotion, ObservedBranch};
pub use prompt::{BaseBranch, Memory, Prompt, WorktreeState};
pub use publish::{CommitOutcome, DiffSummary, SaveOutcome};
pub use refs::{RefName, RefNames};
pub use remote::{Remote, RemoteError};
pub use repository::Repository;
pub use run_key::{RunKey, RunKeyError};
pub use runs::{LocalStage, RunListing, RunRecord, Runs};
pub use scrub::{ScrubStream, Scrubber, Secrets};
pub use ship::{AfterShip, BranchEnd, ShipOrder, ShipOutcome};
pub use state::{StateDir, StateHold};
pub use worker::{
    PollMode, PollResult, Housekeeping, PollBackoff, PollWhen, Polling, Worker, WorkerError, WorkerSettings, PollTrigger,
};
pub use verify::{CommandsVerdict, run_commands};
pub use watch::DirectoryWatch;
pub use workspace::{WorktreeStart, Worktree};

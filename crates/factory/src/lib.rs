//! A worker host: mirrors, worktrees, engines, verification, the state that must survive a crash, and the worker that
//! connects them to a coordinator.
//!
//! The order of a run is `Host::mirror` → `Mirror::refresh` → `Mirror::create` → an engine through `Launcher` →
//! `run_commands` → `Mirror::commit_all` → `Mirror::push_run` → `Mirror::promote`. Only [`Worker`] talks to a
//! coordinator.

mod branch_intents;
mod changed_files;
mod config;
mod detect;
mod diff;
mod engine;
mod error;
mod forge;
mod gc;
mod git;
mod host;
mod large_files;
mod lock;
mod mirror;
mod outbox;
mod partial_clone;
mod pending_merge;
mod pr_template;
mod prior_merge;
mod promote;
mod prompt;
mod publish;
mod refs;
mod remote;
mod repository;
mod runs;
mod ship;
mod snapshot;
mod state;
mod stray_branches;
mod submodules;
mod unsaved_files;
mod verify;
mod watch;
mod worker;
mod workspace;

pub use config::{
    CacheError, EngineConfig, EngineKind, GitConfig, Identity, IdentityError, OutputPattern, OutputPatterns, Price,
    RepoConfig,
};
pub use detect::{BrokenTool, Capabilities, DetectConfig, detect};
pub use engine::{
    AcpEngine, Activity, Allowance, ClaudeEngine, CodexEngine, CommandEngine, DevinEngine, DiskAllowance, Engine,
    EngineContext, EngineError, EngineEvent, EngineOutput, EngineRequest, EngineRun, EngineRunEnd, Exit, LoginState,
    Pending, Permissions, Presence, Prices, RateLimit, Reply, Retryability, RunVerdict, Session, Target, TemplateError,
    Tokens, ToolServer, Usage, WindowState, presences,
};
pub use error::Error;
pub use forge::{
    AutoMerge, BranchTemplate, BranchTemplateError, Forge, ForgeConfig, ForgeError, ForgeKind, Forges, ForgesError,
    GhConfig, MergeMethod, MergeOrder, MergeOutcome, PullRequestConfig, PullRequestDraft, Slug, SlugError, TokenSource,
};
pub use gc::{Gc, GcItem, GcKind, GcPlan, GcReport};
pub use git::{Git, GitError, OperatorAccess};
pub use host::Host;
pub use mirror::Mirror;
pub use outbox::{Outbox, OutboxEntry, OutboxListing};
pub use promote::{AcceptableBranch, ObservedBranch, Promotion};
pub use prompt::{BaseBranch, Memory, Prompt, WorktreeState};
pub use publish::{CommitOutcome, DiffSummary, SaveOutcome};
pub use refs::{RefName, RefNames};
pub use remote::{Remote, RemoteError};
pub use repository::Repository;
pub use runs::{LocalStage, RunListing, RunRecord, Runs};
pub use ship::{AfterShip, BranchEnd, ShipOrder, ShipOutcome};
pub use state::{StateDir, StateHold};
pub use unsaved_files::{UnsavedFile, UnsavedReason};
pub use verify::{CommandsVerdict, run_commands};
pub use watch::DirectoryWatch;
pub use worker::{
    Housekeeping, PollBackoff, PollMode, PollResult, PollTrigger, PollWhen, Polling, RunToolsCommand, Worker,
    WorkerError, WorkerSettings,
};
pub use workspace::{Worktree, WorktreeStart};

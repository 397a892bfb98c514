//! A worker host: mirrors, worktrees, engines, verification, what must survive a crash, and the station that ties them
//! to a coordinator.
//!
//! The order of a run is `Host::mirror` → `Mirror::refresh` → `Mirror::create` → an engine through `Launcher` →
//! `run_commands` → `Mirror::commit_all` → `Mirror::push_run` → `Mirror::promote`. Only [`Station`] talks to a coordinator.

mod branch_notes;
mod changes;
mod config;
mod detect;
mod disk;
mod engine;
mod error;
mod folder;
mod forge;
mod gc;
mod git;
pub mod guard;
mod host;
mod large_files;
mod left_out;
mod lock;
mod merged_before;
mod mirror;
mod outbox;
mod partial;
mod pending_merge;
mod process;
mod promote;
mod prompt;
mod publish;
mod refs;
mod remote;
mod repository;
mod request_form;
mod run_key;
mod runs;
mod scrub;
mod ship;
mod snapshot;
mod state;
mod station;
mod stray_branches;
mod submodules;
mod toolchains;
mod touched;
mod verify;
mod watch;
mod workspace;

pub use config::{
    CacheError, EngineConfig, EngineKind, EnvironmentConfig, GitConfig, Identity, IdentityError, Limits, Price, Read,
    Reads, RepoConfig,
};
pub use detect::{BrokenTool, DetectConfig, Detected, detect};
pub use engine::{
    AcpEngine, Activity, Again, Allowance, Bench, ClaudeEngine, CodexEngine, CommandEngine, DevinEngine, DiskAllowance,
    Engine, EngineError, EngineEvent, EngineOutput, EngineRequest, EngineRun, EngineRunEnd, Exit, Judgement, Login,
    Pending, Permissions, Presence, Prices, RateLimit, Reply, Session, Target, TemplateError, Tokens, Usage,
    WindowState, presences,
};
pub use error::Error;
pub use forge::{
    AutoMerge, BranchTemplate, BranchTemplateError, Forge, ForgeConfig, ForgeError, ForgeKind, Forges, ForgesError,
    GhConfig, MergeMethod, MergeOrder, Merging, Proposal, PullRequestConfig, Slug, SlugError, TokenSource,
};
pub use gc::{Gc, GcItem, GcKind, GcPlan, GcReport};
pub use git::{Git, GitError, OperatorAccess};
pub use host::Host;
pub use left_out::{LeftOut, WhyLeftOut};
pub use mirror::Mirror;
pub use outbox::{Outbox, OutboxEntry, OutboxListing};
pub use process::{
    Account, AccountError, Bounds, Confine, Confinement, End, Environment, Finished, Launcher, Line, Means,
    ProcessMark, Program, Running, Source, StartError, hide_from_siblings, kill_leftovers,
};
pub use promote::{Acceptable, Promotion, SeenBranch};
pub use prompt::{BaseBranch, Memory, Prompt, WorktreeState};
pub use publish::{Committed, DiffSummary, Saved};
pub use refs::{RefName, RefNames};
pub use remote::{Remote, RemoteError};
pub use repository::Repository;
pub use run_key::{RunKey, RunKeyError};
pub use runs::{LocalStage, RunListing, RunRecord, Runs};
pub use scrub::{ScrubStream, Scrubber, Secrets};
pub use ship::{AfterShip, BranchEnd, ShipOrder, Shipped};
pub use state::{StateDir, StateHold};
pub use station::{
    Asking, Found, Housekeeping, Pace, PollWhen, Polling, Station, StationError, StationSettings, Woken,
};
pub use verify::{CommandsVerdict, run_commands};
pub use watch::FolderWatch;
pub use workspace::{Start, Worktree};

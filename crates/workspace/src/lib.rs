//! What a factory keeps on its disk: mirrors of repositories, a worktree per run, records that survive a crash; what it
//! publishes from them; and their clean-up.
//!
//! The order of a run is `Host::mirror` → `Mirror::refresh` → `Mirror::create` → the engine → `Mirror::commit_all` →
//! `Mirror::push_run` → `Mirror::promote`.

mod branch_intents;
mod changed_files;
mod config;
mod diff;
mod error;
mod gc;
mod git;
mod host;
mod large_files;
mod mirror;
mod outbox;
mod partial_clone;
mod pending_merge;
mod pr_template;
mod prior_merge;
mod promote;
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
mod worktree;

pub use branch_intents::{BranchIntent, BranchIntents};
pub use config::{CacheError, GitConfig, RepoConfig, default_base};
pub use diff::Diff;
pub use error::Error;
pub use gc::{EngineCredentials, Gc, GcItem, GcKind, GcPlan, GcReport, JobLookup, JobRecord, JobStatus};
pub use git::{Git, GitError, GitFailureKind, OperatorAccess};
pub use host::Host;
pub use mirror::Mirror;
pub use outbox::{Outbox, OutboxEntry, OutboxListing};
pub use promote::{AcceptableBranch, ObservedBranch, Promotion};
pub use publish::{CommitOutcome, DiffSummary, SaveOutcome};
pub use refs::{RefName, RefNames};
pub use remote::{Remote, RemoteError, Transport};
pub use repository::Repository;
pub use runs::{LocalStage, RunListing, RunRecord, Runs};
pub use ship::{AfterShip, BranchEnd, ShipOrder, ShipOutcome};
pub use state::{StateDir, StateHold};
pub use stray_branches::StrayBranch;
pub use unsaved_files::{UnsavedFile, UnsavedReason};
pub use worktree::{Worktree, WorktreeStart};

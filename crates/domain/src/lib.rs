//! Words and rules. No tokio, no clock, no I/O: everything here can be decided with values alone.

mod engine_health;
mod event;
mod facts;
mod fleet;
mod generation;
mod ids;
mod job;
mod job_label;
mod json;
mod lease;
mod manifest;
mod merge_conflict;
mod merge_failure;
mod mode;
mod names;
mod ports;
mod previous_run;
mod pull_request;
mod reason;
mod refusal;
mod repo_identity;
mod retry;
mod run;
mod shape;
mod spec;
mod stage;
mod time;
mod usage_window;

pub use engine_health::{EngineHealth, unnamed_credential};
pub use event::{Actor, EventKind, JobEvent, Recorded};
pub use facts::Facts;
pub use fleet::{Factory, Grant, Product, Token, UnavailableRepo};
pub use generation::{Bookmark, BookmarkError, Lineage};
pub use ids::{
    ClaimNonce, DispatchSeq, Epoch, EventSeq, Generation, IdError, InstanceId, JobId, Position, Revision, TokenId,
};
pub use job::{DepsState, DocumentError, Job, Submission, Versioned};
pub use job_label::{JobLabel, ShortJobId};
pub use json::json_text;
pub use lease::{Checkpoint, Dispatch, Errand, ErrandKind, ErrandState, Fence, Lease};
pub use manifest::{Finding, Manifest, Severity, Strictness, manifest_schema, suggest};
pub use merge_conflict::{CONFLICT_FILES_MAX, MergeConflict};
pub use merge_failure::{ConflictingJob, ERRAND_TRIES_MAX, MergeFailure};
pub use mode::{Flags, Mode, UnknownMode};
pub use names::{
    BranchName, Capability, CommitSha, EngineName, FactoryId, NameError, ProductId, RepoIdentity, RepoName, Tag,
    counted, dollars, is_harmless, printable,
};
pub use ports::{
    Backup, BackupSummary, Body, Broker, BrokerError, Collection, Commit, CommitError, Cursor, Delivery, Expected,
    FleetStore, JobFilter, JobHistory, JobStore, LogStore, Message, MessageId, Page, Published, Receipt, Scope,
    StoreError, Subscription, Summary, Unreadable,
};
pub use previous_run::{FailedCommand, OUTPUT_TAIL_BYTES_MAX, PreviousRun, RunEnd};
pub use pull_request::PullRequest;
pub use reason::{Again, FailureReason};
pub use refusal::Refusal;
pub use retry::{RetryPolicy, Verdict};
pub use run::{
    COST_USD_MAX, CommandStep, ENGINE_MS_MAX, Evidence, FigureOutOfRange, Insights, Run, RunOutcome, Spent, TOKENS_MAX,
    TURNS_MAX, last_lines,
};
pub use shape::{Shape, ShapeKey};
pub use spec::{Budget, Dep, DepsMode, Kind, OnDepFailure, Priority, Retry, Review, Spec};
pub use stage::{
    Account, Completion, Holder, KeepCheckpoint, Obstacle, Stage, StageEvent, StageName, Unaccepted, UnknownStage,
};
pub use time::{Clock, Entropy, Timestamp, TimestampError};
pub use usage_window::UsageWindow;

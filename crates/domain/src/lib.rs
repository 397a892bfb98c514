//! Types and rules of the domain. No tokio, no clock, no I/O: all functions work on values.

mod agent_files;
mod artifact;
mod artifact_glob;
mod branch_template;
mod budget;
mod child_result;
mod commit_author;
mod engine_health;
mod error_chain;
mod event;
mod fleet;
mod generation;
mod ids;
mod job;
mod job_columns;
mod job_label;
mod job_search;
mod job_tree;
mod json;
mod lease;
mod manifest;
mod merge_conflict;
mod merge_failure;
mod mode;
mod names;
mod plan;
mod pool;
mod ports;
mod previous_run;
mod profile;
mod pull_request;
mod reason;
mod recent_events;
mod refusal;
mod repo_identity;
mod retry;
mod review;
mod run;
mod run_key;
mod shape;
mod spec;
mod stage;
mod terminal_text;
mod time;
mod tracker;
mod usage_window;
mod webhook;

pub use agent_files::{PR_BODY_FILE, QUESTION_FILE};
pub use artifact::{
    ARTIFACT_BYTES_MAX, ARTIFACTS_MAX, Artifact, ArtifactId, ArtifactIdError, ArtifactLimits, BlobKey, UploadId,
    UploadedArtifact, attachment_disposition, byte_size,
};
pub use artifact_glob::ArtifactGlob;
pub use branch_template::{BranchTemplate, BranchTemplateError};
pub use budget::{
    AmountOutOfRange, Billing, BudgetPeriod, BudgetSettings, LedgerEntry, MoneyWait, OutOfMoney, PausePeriod,
    ProductBudget, Reservation, ReservationKey, RunningWork, SpendByName, SpendProjection, SpendTotals, Spending, Usd,
    WARNING_LEVELS, project,
};
pub use child_result::{CHILD_RESULTS_MAX, CHILD_SUMMARY_CHARS_MAX, ChildResult};
pub use commit_author::{CommitAuthor, CommitAuthorError};
pub use engine_health::{EngineHealth, unnamed_credential};
pub use error_chain::error_chain;
pub use event::{Actor, EventKind, JobEvent, StoredEvent};
pub use fleet::{Factory, Pause, Product, ScoreWeights, Session, Token, TokenScope, UnavailableRepo};
pub use generation::{EventCursor, EventCursorError, StoreGeneration};
pub use ids::{
    ClaimNonce, DispatchSeq, Epoch, EventSeq, Generation, IdError, InstanceId, JobId, Position, Revision, SessionId,
    TokenId,
};
pub use job::{
    AttachOutcome, DepsState, DocumentError, Job, JobPause, Submission, UsageReport, Versioned, VoteOutcome,
};
pub use job_columns::JobColumns;
pub use job_label::{JobLabel, ShortJobId};
pub use job_search::{JobSearch, SearchTerm, search_terms};
pub use job_tree::{SUBTASKS_MAX, TREE_JOBS_MAX, TREE_LEVELS_MAX, TreePlace};
pub use json::json_text;
pub use lease::{Checkpoint, Dispatch, Errand, ErrandKind, ErrandState, Fence, Lease, Preemption};
pub use manifest::{Finding, Manifest, ProfileUse, Severity, Strictness, duration_millis, manifest_schema, suggest};
pub use merge_conflict::{CONFLICT_FILES_MAX, MergeConflict};
pub use merge_failure::{ConflictingJob, ERRAND_TRIES_MAX, MergeFailure};
pub use mode::{DispatchModes, Mode, UnknownMode};
pub use names::{
    ArtifactName, BranchName, Capability, CommitSha, ContentType, EngineName, FactoryId, NameError, PoolName,
    ProductId, ProfileName, RepoIdentity, RepoName, Sha256, Tag, TrackerName, WebhookName, counted, dollars,
    escape_for_terminal, grouped, is_terminal_safe, terminal_chars, terminal_safe,
};
pub use plan::{Plan, PlannedJob};
pub use pool::{Pool, is_member_name};
pub use ports::{
    Backup, BackupSummary, BlobAttributes, BlobReader, BlobStore, BlobWriter, Body, Broker, BrokerConnector,
    BrokerError, BrokerLogin, Collection, Commit, CommitError, Cursor, Delivery, Expected, FleetStore, IndexProgress,
    ItemStatus, ItemTracker, JobFilter, JobHistory, JobStore, Leader, Leadership, LogStore, Message, MessageId,
    PUBLISH_WITHIN, Page, PublishOutcome, Receipt, Receives, Scope, SoleLeader, StoreError, Subscription, Summary,
    TrackerError, UnreadableDocument, WebhookDelivery, WebhookError, WebhookReceiver,
};
pub use previous_run::{FailedCommand, OUTPUT_TAIL_BYTES_MAX, PreviousRun, RunEnd};
pub use profile::{Profile, ProfileDefaults, ProfileOrigin, ProfileOwner, ProfileRef, ProfileSnapshot, ProfileText};
pub use pull_request::PullRequest;
pub use reason::{FailureReason, Retryability};
pub use recent_events::RecentEvents;
pub use refusal::Refusal;
pub use retry::{RetryDecision, RetryPolicy, doubled};
pub use review::{PERSON_CHARS_MAX, PersonWait, QUORUM_MAX, REVIEWERS_MAX, Review, Vote, VoteDecision, is_same_person};
pub use run::{
    COST_USD_MAX, CommandStep, ENGINE_MS_MAX, Evidence, Run, RunInsights, RunOutcome, TOKENS_MAX, TURNS_MAX,
    TotalSpend, ValueOutOfRange, last_lines,
};
pub use run_key::{RunKey, RunKeyError};
pub use shape::{Shape, ShapeKey};
pub use spec::{Budget, Dep, DepsMode, Kind, OnDepFailure, Priority, Retry, Spec};
pub use stage::{
    BlockedOn, Completion, FailureDetails, Holder, KeepCheckpoint, OfferEnd, Stage, StageEvent, StageName, UnknownStage,
};
pub use terminal_text::{TerminalScrubber, clean_line, clean_lines};
pub use time::{Clock, Entropy, Timestamp, TimestampError};
pub use tracker::TrackerItem;
pub use usage_window::UsageWindow;
pub use webhook::{UnknownTopic, WebhookFormat, WebhookTopic};

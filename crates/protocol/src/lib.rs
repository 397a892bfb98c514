//! What travels: requests, answers, streamed events, and the client that sends them.

mod archive;
mod claims;
mod client;
mod evidence;
mod factories;
mod feedback;
mod identity;
mod jobs;
mod network;
mod operations;
mod problem;
mod progress;
mod quota;
mod reach;
mod sse;
mod transfer;
mod work;

pub use archive::{REPLACE_EVERYTHING, Restored, SUMMARY_HEADER};
pub use claims::{Claim, Claimed, Granted, NotGranted, QueueNews, WouldGrant};
pub use client::{Client, ClientError, Endpoint, EventStream, LogStream, Trust};
pub use evidence::{CommitLine, DIFF_BYTES_MAX, EvidenceKept, EvidenceWork, LeftBranch, RunEvidence};
pub use factories::{
    Drain, Enroll, Enrolled, FactoryList, FactoryView, Heartbeat, HeartbeatAnswer, Presence, Pruned, SeatsInUse,
    TokenRotated,
};
pub use feedback::{LookOrder, Remark, RemarkKind, Sighting, SightingAnswer, Standing};
pub use identity::{IdentityChallenge, IdentityProof, TokenDigest};
pub use jobs::{
    Action, ActionRequest, Batch, BatchAnswer, BatchOutcome, Dag, DagNode, EventList, Explained, JobDetail, JobList,
    JobView, JobWait, LeaseView, RunList, Submit, Submitted,
};
pub use network::{
    Answer, Fault, IDLE_TIME_MAX, Network, Outgoing, fingerprint, is_publicly_trusted, public_network, real_network,
};
pub use operations::{
    Alert, AlertCode, AlertList, CoordinatorAddress, DeadLetter, DeadLetterList, Health, Metrics, NewToken,
    ProductList, ProductSettings, QueueState, TokenList, TokenMade, TokenView,
};
pub use problem::Problem;
pub use progress::{Holding, Progress, ProgressEvent, ResetReason, StreamEvent};
pub use quota::{CredentialList, CredentialView, QuotaAnswer, QuotaWork, ResumeCredential};
pub use sse::{SseEvent, SseParser};
pub use transfer::Download;
pub use work::{
    Accept, Accepted, AskWork, Assignment, CompleteWork, Completed, Decline, DeclineReason, Directive, ErrandOutcome,
    ErrandReport, FailWork, Failed, Held, InboxEvent, LogAppended, Patch, PromoteOrder, ReleaseWork, Renew, Renewed,
    StageAnswer, StartWork, Work, WorkAnswer, WorkOperation, WorkOutcome, WorkResult,
};

/// The version of the wire protocol. A coordinator serves factories of this version and of the one before.
pub const PROTOCOL_VERSION: u32 = 1;

/// The path that the API lives under.
pub const API_PREFIX: &str = "/api/fleet";

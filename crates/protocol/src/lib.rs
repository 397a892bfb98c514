//! What travels: requests, answers, streamed events, and the client that sends them.

mod backup;
mod claims;
mod client;
mod evidence;
mod factories;
mod feedback;
mod identity;
mod jobs;
mod http;
mod operations;
mod problem;
mod progress;
mod quota;
mod public_resolver;
mod sse;
mod transfer;
mod work;

pub use backup::{REPLACE_EVERYTHING, RestoreSummary, SUMMARY_HEADER};
pub use claims::{ClaimRequest, ClaimResponse, GrantedJob, NotGranted, QueueVersion, WouldGrant};
pub use client::{Client, ClientError, Endpoint, EventStream, LogStream, Trust};
pub use evidence::{CommitLine, DIFF_BYTES_MAX, EvidenceResponse, EvidenceReport, LeftBranch, RunEvidence};
pub use factories::{
    DrainRequest, EnrolRequest, EnrolResponse, FactoryList, FactoryView, Heartbeat, HeartbeatResponse, Presence, PruneResponse, SeatsInUse,
    RotateTokenResponse,
};
pub use feedback::{PollPullRequest, ReviewComment, ReviewCommentKind, PullRequestReport, PullRequestReportResponse, PullRequestState};
pub use identity::{IdentityChallenge, IdentityProof, TokenDigest};
pub use jobs::{
    Action, ActionRequest, BatchRequest, BatchResponse, BatchOutcome, Dag, DagNode, EventList, JobExplanation, JobDetail, JobList,
    JobView, JobWait, LeaseView, RunList, SubmitRequest, SubmitResponse,
};
pub use http::{
    ResponseBody, TransportError, IDLE_TIME_MAX, HttpTransport, RequestBody, fingerprint, is_publicly_trusted, public_network, real_network,
};
pub use operations::{
    Alert, AlertCode, AlertList, CoordinatorAddress, DeadLetter, DeadLetterList, Health, Metrics, CreateTokenRequest,
    ProductList, ProductSettings, QueueState, TokenList, CreateTokenResponse, TokenView,
};
pub use problem::Problem;
pub use progress::{HeldJobProgress, Progress, ProgressEvent, ResetReason, StreamEvent};
pub use quota::{CredentialList, CredentialView, QuotaResponse, QuotaReport, ResumeCredential};
pub use sse::{SseEvent, SseParser};
pub use transfer::Download;
pub use work::{
    AcceptRequest, AcceptResponse, QuestionReport, Assignment, CompletionReport, CompletionResponse, DeclineRequest, DeclineReason, Directive, ErrandOutcome,
    ErrandReport, FailureReport, FailureResponse, HeldJob, InboxEvent, AppendLogResponse, Patch, PromoteOrder, ReleaseReport, RenewRequest, RenewResponse,
    StageResponse, StartReport, WorkRequest, WorkResponse, WorkOperation, WorkOutcome, WorkResult,
};

/// The version of the wire protocol. A coordinator serves factories of this version and of the one before.
pub const PROTOCOL_VERSION: u32 = 1;

/// The path that the API lives under.
pub const API_PREFIX: &str = "/api/fleet";

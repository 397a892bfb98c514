//! The wire protocol: requests, responses and streamed events.

mod alert_help;
mod artifacts;
mod backup;
mod budgets;
mod claims;
mod divergence;
mod evidence;
mod factories;
mod feedback;
mod identity;
mod job_progress;
mod jobs;
mod live;
mod metrics_history;
mod needs;
mod operations;
mod placement;
mod plans;
mod pools;
mod problem;
mod profiles;
mod progress;
mod quota;
mod review;
mod run_tools;
mod session;
mod sse;
mod subtasks;
mod tracker;
mod webhooks;
mod work;

pub use artifacts::{ArtifactLink, ArtifactList, ArtifactView};
pub use backup::{REPLACE_EVERYTHING, RestoreSummary, SUMMARY_HEADER};
pub use budgets::{
    BudgetList, BudgetView, BurnDown, BurnDownPoint, PauseRequest, SpendShare, UsageRequest, UsageResponse,
};
pub use claims::{ClaimRequest, ClaimResponse, GrantedJob, NotGranted, QueueVersion, WouldGrant};
pub use divergence::{
    CutOverVerdict, Divergence, DivergenceKind, DivergenceReport, ProductDivergence, ShadowCounts, ShadowHour,
    ShadowLag, ShadowSummary,
};
pub use evidence::{CommitLine, DIFF_BYTES_MAX, EvidenceReport, EvidenceResponse, LeftBranch, RunEvidence};
pub use factories::{
    DrainRequest, EnrolRequest, EnrolResponse, FactoryList, FactoryView, Heartbeat, HeartbeatResponse, Presence,
    PruneResponse, ReceivedShadow, RotateTokenResponse, SeatsInUse,
};
pub use feedback::{
    ForgeApproval, PollPullRequest, PullRequestReport, PullRequestReportResponse, PullRequestState, ReviewComment,
    ReviewCommentKind,
};
pub use identity::{IdentityChallenge, IdentityProof, TokenDigest, fingerprint};
pub use jobs::{
    Action, ActionRequest, BatchOutcome, BatchRequest, BatchResponse, ChildView, Dag, DagNode, EventList, JobCounts,
    JobDetail, JobExplanation, JobList, JobTotal, JobView, JobWait, LeaseView, RunList, SubmitRequest, SubmitResponse,
    TreeSummary, WaitingCounts,
};
pub use live::{AlertChange, AlertEvent, FactoryChange, FactoryEvent, HelloEvent, NeedsEvent};
pub use metrics_history::{
    LagQuantiles, MetricsHistory, MetricsPoint, StoreOperationCounts, Utilisation, percent_in_use,
};
pub use needs::{AnswerRequest, DismissRequest, Need, NeedAction, NeedKind, NeedList, UnknownNeedKind};
pub use operations::{
    Alert, AlertCode, AlertList, CoordinatorAddress, CoordinatorRole, CreateTokenRequest, CreateTokenResponse,
    DeadLetter, DeadLetterList, Health, Metrics, ProductList, ProductSettings, QueueState, TokenList, TokenView,
};
pub use placement::{PlacementDecision, weights_text};
pub use plans::{PlanRequest, PlanResponse, PlannedJobView, PlannedPlacement};
pub use pools::{PoolList, PoolScale, PoolSettings, PoolView, ScaleResponse};
pub use problem::Problem;
pub use profiles::{
    CreateProfileRequest, CreateProfileResponse, JobProfile, ProfileDetail, ProfileList, ProfileVersion, ProfileView,
};
pub use progress::{HeldJobProgress, Progress, ProgressEvent, ResetReason, StreamEvent};
pub use quota::{CredentialList, CredentialView, QuotaReport, QuotaResponse, ResumeCredential};
pub use review::{JobReview, ReviewRequest, VoteRequest, VoteRight};
pub use run_tools::{RUN_LINE_LEN_MAX, RUN_QUESTION_LEN_MAX, RunAnswer, RunContext, RunRequest, RunTool};
pub use session::{
    CoordinatorView, CreateCodeRequest, PrincipalView, Role, SESSION_HEADER, SessionView, SignInCode, SignInRequest,
    SignInResponse,
};
pub use sse::{SseEvent, SseParser};
pub use subtasks::{
    NewSubtask, SUBTASK_INSTRUCTIONS_LEN_MAX, SUBTASK_KEY_LEN_MAX, SUBTASK_TITLE_CHARS_MAX, SubtaskBudget, SubtaskList,
    SubtaskRequest, SubtaskResponse, SubtaskView, SubtaskWaitReport,
};
pub use tracker::{
    EchoRequest, IngestOutcome, IngestRequest, IngestResponse, RejectedItem, TrackerItemView, TrackerList,
    TrackerSourceView, TrackerWebhookResponse,
};
pub use webhooks::{WebhookAlert, WebhookJob, WebhookList, WebhookNotice, WebhookTestResponse, WebhookView};
pub use work::{
    AcceptRequest, AcceptResponse, Announcement, AppendLogResponse, Assignment, CompletionReport, CompletionResponse,
    DeclineReason, DeclineRequest, Directive, ErrandOutcome, ErrandReport, FailureReport, FailureResponse, HeldJob,
    InboxEvent, Patch, PromoteOrder, QuestionReport, ReleaseReport, RenewRequest, RenewResponse, StageResponse,
    StartReport, WorkOperation, WorkOutcome, WorkRequest, WorkResponse, WorkResult,
};

/// The version of the wire protocol. A coordinator serves factories of this version and the previous one.
pub const PROTOCOL_VERSION: u32 = 1;

/// The path prefix of the API.
pub const API_PREFIX: &str = "/api/fleet";

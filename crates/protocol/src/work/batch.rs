//! Batches of worker operations.

use domain::JobId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::accept::{AcceptRequest, AcceptResponse, DeclineRequest};
use super::report::{
    CompletionReport, CompletionResponse, ErrandReport, FailureReport, FailureResponse, Patch, QuestionReport,
    ReleaseReport, StageResponse, StartReport,
};
use crate::problem::Problem;
use crate::quota::{QuotaReport, QuotaResponse};
use crate::subtasks::SubtaskWaitReport;

/// A batch of operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkRequest {
    /// At most 1,000. Executed concurrently, answered in order.
    pub operations: Vec<WorkOperation>,
}

/// One operation of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
// The fields are renamed per variant: the schema does not support `rename_all_fields`.
#[serde(rename_all = "camelCase", tag = "op")]
#[expect(missing_docs, reason = "each field is the request that the single route takes")]
pub enum WorkOperation {
    /// `POST /accept`
    Accept {
        #[serde(flatten)]
        request: AcceptRequest,
    },
    /// `POST /decline`
    Decline {
        #[serde(flatten)]
        request: DeclineRequest,
    },
    /// `POST /jobs/:id/start`
    #[serde(rename_all = "camelCase")]
    Start {
        job_id: JobId,
        #[serde(flatten)]
        request: StartReport,
    },
    /// `PATCH /jobs/:id` with a checkpoint
    #[serde(rename_all = "camelCase")]
    Patch {
        job_id: JobId,
        #[serde(flatten)]
        request: Patch,
    },
    /// `POST /jobs/:id/complete`
    #[serde(rename_all = "camelCase")]
    Complete {
        job_id: JobId,
        #[serde(flatten)]
        request: CompletionReport,
    },
    /// `POST /jobs/:id/promote`
    #[serde(rename_all = "camelCase")]
    Promote {
        job_id: JobId,
        #[serde(flatten)]
        request: ErrandReport,
    },
    /// `POST /fail`
    #[serde(rename_all = "camelCase")]
    Fail {
        job_id: JobId,
        #[serde(flatten)]
        request: FailureReport,
    },
    /// `POST /jobs/:id/quota`
    #[serde(rename_all = "camelCase")]
    Quota {
        job_id: JobId,
        #[serde(flatten)]
        request: QuotaReport,
    },
    /// `POST /jobs/:id/ask`
    #[serde(rename_all = "camelCase")]
    Ask {
        job_id: JobId,
        #[serde(flatten)]
        request: QuestionReport,
    },
    /// `POST /jobs/:id/subtasks/wait`
    #[serde(rename_all = "camelCase")]
    AwaitSubtasks {
        job_id: JobId,
        #[serde(flatten)]
        request: SubtaskWaitReport,
    },
    /// `POST /jobs/:id/lease/release`
    #[serde(rename_all = "camelCase")]
    Release {
        job_id: JobId,
        #[serde(flatten)]
        request: ReleaseReport,
    },
}

/// The answers, in the order of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkResponse {
    /// One result per operation.
    pub results: Vec<WorkResult>,
}

/// The result of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkResult {
    /// The HTTP status of the corresponding single route.
    pub status: u16,
    /// The response body.
    #[serde(flatten)]
    pub outcome: WorkOutcome,
}

/// The response to one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum WorkOutcome {
    /// To `accept`.
    Accepted(Box<AcceptResponse>),
    /// To `decline`, `start`, `patch`, `promote`, `ask`, `awaitSubtasks` and `release`.
    Stage(StageResponse),
    /// To `complete`.
    Completed(CompletionResponse),
    /// To `fail`.
    Failed(FailureResponse),
    /// To `quota`.
    Quota(QuotaResponse),
    /// The operation was rejected.
    Problem(Box<Problem>),
}

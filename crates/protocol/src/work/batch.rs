//! Many operations of a worker in one request.

use domain::JobId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::accept::{Accept, Accepted, Decline};
use super::report::{
    AskWork, CompleteWork, Completed, ErrandReport, FailWork, Failed, Patch, ReleaseWork, StageAnswer, StartWork,
};
use crate::problem::Problem;
use crate::quota::{QuotaAnswer, QuotaWork};

/// Many operations in one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Work {
    /// At most 1,000; done side by side, answered in order.
    pub operations: Vec<WorkOperation>,
}

/// One operation of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
// The fields are renamed variant by variant: the schema knows nothing of `rename_all_fields`.
#[serde(rename_all = "camelCase", tag = "do")]
#[expect(missing_docs, reason = "each field is the request that the single route takes")]
pub enum WorkOperation {
    /// `POST /accept`
    Accept {
        #[serde(flatten)]
        request: Accept,
    },
    /// `POST /decline`
    Decline {
        #[serde(flatten)]
        request: Decline,
    },
    /// `POST /jobs/:id/start`
    #[serde(rename_all = "camelCase")]
    Start {
        job_id: JobId,
        #[serde(flatten)]
        request: StartWork,
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
        request: CompleteWork,
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
        request: FailWork,
    },
    /// `POST /jobs/:id/quota`
    #[serde(rename_all = "camelCase")]
    Quota {
        job_id: JobId,
        #[serde(flatten)]
        request: QuotaWork,
    },
    /// `POST /jobs/:id/ask`
    #[serde(rename_all = "camelCase")]
    Ask {
        job_id: JobId,
        #[serde(flatten)]
        request: AskWork,
    },
    /// `POST /jobs/:id/lease/release`
    #[serde(rename_all = "camelCase")]
    Release {
        job_id: JobId,
        #[serde(flatten)]
        request: ReleaseWork,
    },
}

/// The answers, in the order of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkAnswer {
    /// One for each operation.
    pub results: Vec<WorkResult>,
}

/// What became of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkResult {
    /// The status that the single route would have answered with.
    pub status: u16,
    /// Its answer.
    #[serde(flatten)]
    pub outcome: WorkOutcome,
}

/// The answer of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum WorkOutcome {
    /// To `accept`.
    Accepted(Box<Accepted>),
    /// To `decline`, `start`, `patch`, `promote`, `ask` and `release`.
    Stage(StageAnswer),
    /// To `complete`.
    Completed(Completed),
    /// To `fail`.
    Failed(Failed),
    /// To `quota`.
    Quota(QuotaAnswer),
    /// It was refused.
    Problem(Box<Problem>),
}

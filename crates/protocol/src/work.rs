//! What a factory says and hears about the jobs it works on.

mod accept;
mod batch;
mod renew;
mod report;

pub use accept::{AcceptRequest, AcceptResponse, Assignment, DeclineRequest, DeclineReason, PromoteOrder};
pub use batch::{WorkRequest, WorkResponse, WorkOperation, WorkOutcome, WorkResult};
pub use renew::{Directive, HeldJob, InboxEvent, RenewRequest, RenewResponse};
pub use report::{
    QuestionReport, CompletionReport, CompletionResponse, ErrandOutcome, ErrandReport, FailureReport, FailureResponse, AppendLogResponse, Patch, ReleaseReport,
    StageResponse, StartReport,
};

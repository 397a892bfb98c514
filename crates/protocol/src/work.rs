//! Requests and responses of factories about their jobs.

mod accept;
mod batch;
mod renew;
mod report;

pub use accept::{AcceptRequest, AcceptResponse, Assignment, DeclineReason, DeclineRequest, PromoteOrder};
pub use batch::{WorkOperation, WorkOutcome, WorkRequest, WorkResponse, WorkResult};
pub(crate) use renew::known_directives;
pub use renew::{Announcement, Directive, HeldJob, InboxEvent, RenewRequest, RenewResponse};
pub use report::{
    AppendLogResponse, CompletionReport, CompletionResponse, ErrandOutcome, ErrandReport, FailureReport,
    FailureResponse, Patch, QuestionReport, ReleaseReport, StageResponse, StartReport,
};

//! What a factory says and hears about the jobs it works on.

mod accept;
mod batch;
mod renew;
mod report;

pub use accept::{Accept, Accepted, Assignment, Decline, DeclineReason, PromoteOrder};
pub use batch::{Work, WorkAnswer, WorkOperation, WorkOutcome, WorkResult};
pub use renew::{Directive, Held, InboxEvent, Renew, Renewed};
pub use report::{
    AskWork, CompleteWork, Completed, ErrandOutcome, ErrandReport, FailWork, Failed, LogAppended, Patch, ReleaseWork,
    StageAnswer, StartWork,
};

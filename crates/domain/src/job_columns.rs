//! The few facts about a job that queries need, as columns beside the document.

use crate::ids::JobId;
use crate::job::Job;
use crate::names::{ProductId, RepoName};
use crate::shape::ShapeKey;
use crate::spec::Priority;
use crate::stage::StageName;
use crate::time::Timestamp;

/// What a store keeps as columns, computed by the domain and never by the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobColumns {
    /// Whose job it is.
    pub product: ProductId,
    /// Where it is.
    pub stage: StageName,
    /// Where it can run.
    pub shape: ShapeKey,
    /// How urgent it is.
    pub priority: Priority,
    /// The repository it works in.
    pub repo: Option<RepoName>,
    /// When it was submitted.
    pub created: Timestamp,
    /// The jobs it waits for. Written once, with the job.
    pub deps: Vec<JobId>,
}

pub(crate) fn facts_of(job: &Job) -> JobColumns {
    JobColumns {
        product: job.product().clone(),
        stage: job.stage().name(),
        shape: job.shape_key(),
        priority: job.priority(),
        repo: job.spec().repo.clone(),
        created: job.created_at(),
        deps: job.submission().deps.clone(),
    }
}

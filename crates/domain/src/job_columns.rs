//! The columns that a store keeps beside a job's document for queries.

use crate::ids::JobId;
use crate::job::Job;
use crate::job_tree::TreePlace;
use crate::names::{ProductId, RepoName};
use crate::shape::ShapeKey;
use crate::spec::Priority;
use crate::stage::StageName;
use crate::time::Timestamp;

/// Columns of a job. The domain computes them, never the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobColumns {
    /// The product that owns the job.
    pub product: ProductId,
    /// The current stage.
    pub stage: StageName,
    /// The key of the job's shape.
    pub shape: ShapeKey,
    /// The current priority.
    pub priority: Priority,
    /// The repository it works in.
    pub repo: Option<RepoName>,
    /// When it was submitted.
    pub created: Timestamp,
    /// The dependencies. Written once, with the job.
    pub deps: Vec<JobId>,
    /// The place in its tree, for a child. Written once, with the job.
    pub tree: Option<TreePlace>,
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
        tree: job.submission().tree,
    }
}

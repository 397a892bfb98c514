//! The few facts about a job that queries need, as columns beside the document.

use crate::ids::JobId;
use crate::job::Job;
use crate::lease::ErrandState;
use crate::names::{ProductId, RepoName};
use crate::shape::ShapeKey;
use crate::spec::Priority;
use crate::stage::{Stage, StageName};
use crate::time::Timestamp;

/// What a store keeps as columns, computed by the domain and never by the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
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
    /// When a sweep has to look at it: accept deadline, end of backoff, end of an errand's time.
    pub due: Option<Timestamp>,
    /// The jobs it waits for. Written once, with the job.
    pub deps: Vec<JobId>,
}

pub(crate) fn facts_of(job: &Job) -> Facts {
    Facts {
        product: job.product().clone(),
        stage: job.stage().name(),
        shape: job.shape().key(),
        priority: job.priority(),
        repo: job.spec().repo.clone(),
        created: job.created_at(),
        due: due(job),
        deps: job.submission().deps.clone(),
    }
}

fn due(job: &Job) -> Option<Timestamp> {
    match (job.stage(), job.errand().map(|errand| &errand.state)) {
        (Stage::Queued { dispatch: Some(offer), .. }, _) => Some(offer.accept_by),
        (Stage::Queued { not_before, .. }, _) => *not_before,
        (_, Some(ErrandState::Dispatched { dispatch })) => Some(dispatch.accept_by),
        (_, Some(ErrandState::Held { until, .. })) => Some(*until),
        (_, Some(ErrandState::Waiting { not_before })) => *not_before,
        (_, None) => None,
    }
}

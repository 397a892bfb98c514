//! Jobs that wait for other jobs. Unmet dependencies are queried, never counted down (row 19).

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{BlockedOn, DepsMode, FailureReason, Job, JobId, OnDepFailure, Spec, Stage, StageEvent, StageName};
use futures_util::{StreamExt as _, future, stream};
use tracing::{info, warn};

use crate::commit::Decision;
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::error::Error;

/// Concurrent changes: enough for one flush to batch many, few enough not to block other requests.
pub(crate) const AT_ONCE_MAX: usize = 256;

/// Whether jobs that wait for a settled one have to be checked too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DependentsCheck {
    ForWaiters,
    Quietly,
}

/// The state of a job's dependencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DepsVerdict {
    /// All dependencies are met.
    Met,
    /// These dependencies are unmet.
    Unmet(Vec<JobId>),
    /// This dependency failed, and the job fails with it.
    Failed(JobId),
}

impl Coordinator {
    /// The current state of a job's dependencies.
    pub(crate) async fn check_deps(&self, spec: &Spec, deps: &[JobId]) -> Result<DepsVerdict, Error> {
        Ok(verdict(spec, &stages(&self.dependencies(deps).await?)))
    }

    /// A job's dependencies; `None` for one that does not exist.
    async fn dependencies(&self, deps: &[JobId]) -> Result<Vec<(JobId, Option<Arc<Job>>)>, Error> {
        let mut found = Vec::with_capacity(deps.len());
        for dep in deps {
            match self.look_up(*dep).await {
                Ok(job) => found.push((*dep, Some(job.value))),
                Err(Error::NoSuchJob(_)) => found.push((*dep, None)),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Whether an offered job could not have been accepted, because a dependency is unmet again (row 20).
    pub(crate) async fn waits_for_deps(&self, id: JobId) -> Result<bool, Error> {
        let job = self.look_up(id).await?;
        let deps = &job.value.submission().deps;
        Ok(!deps.is_empty() && self.check_deps(job.value.spec(), deps).await? != DepsVerdict::Met)
    }

    /// A job's stage; `None` if the job does not exist.
    pub(crate) async fn stage_of(&self, id: JobId) -> Result<Option<StageName>, Error> {
        match self.look_up(id).await {
            Ok(job) => Ok(Some(job.value.stage().name())),
            Err(Error::NoSuchJob(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks the jobs that wait for a job that ended. Idempotent; the sweep does the same.
    pub(crate) async fn settle_waiters(&self, id: JobId) {
        let waiters = self.state.lock().waiters(id);
        self.settle(waiters).await;
    }

    /// Moves blocked jobs on if their dependencies allow it, then the dependents of those that failed. It goes level by
    /// level, so that a long chain needs no more stack than a short one.
    pub(crate) async fn settle(&self, ids: Vec<JobId>) {
        let mut level: BTreeSet<JobId> = ids.into_iter().collect();
        while !level.is_empty() {
            let settled = stream::iter(level.into_iter().map(|id| self.settle_one(id)));
            let failed: Vec<JobId> = settled.buffer_unordered(AT_ONCE_MAX).filter_map(future::ready).collect().await;
            let state = self.state.lock();
            level = failed.into_iter().flat_map(|id| state.waiters(id)).collect();
        }
    }

    /// Moves one blocked job on; returns the job if it failed.
    async fn settle_one(&self, id: JobId) -> Option<JobId> {
        match self.try_settle(id).await {
            Ok(DependentsCheck::ForWaiters) => Some(id),
            Ok(DependentsCheck::Quietly) => None,
            Err(error) => {
                warn!(job.id = %id, %error, "Could not check the dependencies of job {}, the sweep retries", self.label(id));
                None
            }
        }
    }

    /// Returns a job that a claim set aside to the queue, as far as one of its dependencies goes.
    fn recall(&self, id: JobId) {
        let now = self.steady();
        let mut state = self.state.lock();
        if state.is_parked(id) {
            state.ripen(id, now);
            self.work.notify_one();
        }
    }

    async fn try_settle(&self, id: JobId) -> Result<DependentsCheck, Error> {
        let job = self.look_up(id).await?;
        if !is_blocked(&job.value) {
            self.recall(id);
            return Ok(DependentsCheck::Quietly);
        }
        let deps = self.dependencies(&job.value.submission().deps).await?;
        let event = match verdict(job.value.spec(), &stages(&deps)) {
            DepsVerdict::Unmet(_) => {
                return self.note_failed_dependency(&job.value, failed_dependency(job.value.spec(), &deps)).await;
            }
            DepsVerdict::Met => StageEvent::Unblocked,
            DepsVerdict::Failed(dep) => StageEvent::DepFailed { dep },
        };
        let now = self.now();
        let settled = self
            .amend(id, |job| {
                if !is_blocked(&job) {
                    return Ok(Decision::Keep);
                }
                job.apply(event.clone(), now, COORDINATOR).map(Decision::Write)
            })
            .await?;
        info!(job.id = %id, job.stage = %settled.value.stage().name(), "Checked the dependencies of job {}", settled.value.label());
        Ok(match settled.value.stage() {
            Stage::Failed { reason: FailureReason::DepFailed } => DependentsCheck::ForWaiters,
            _ => DependentsCheck::Quietly,
        })
    }

    /// Records the failed dependency that a blocked job waits for, so that lists, alerts and `wait` show it.
    async fn note_failed_dependency(&self, job: &Job, failed: Option<JobId>) -> Result<DependentsCheck, Error> {
        if failed == job.failed_dependency() {
            return Ok(DependentsCheck::Quietly);
        }
        let now = self.now();
        let noted = self.amend(job.id(), |job| {
            if !is_blocked(&job) || job.failed_dependency() == failed {
                return Ok(Decision::Keep);
            }
            Ok(Decision::Write(job.with_failed_dependency(failed, now, COORDINATOR)))
        });
        let noted = noted.await?;
        if let Some(dep) = noted.value.failed_dependency() {
            let (id, label) = (job.id(), noted.value.label());
            warn!(job.id = %id, "Job {label} is blocked: its dependency {} failed", self.label(dep));
        }
        Ok(DependentsCheck::ForWaiters)
    }
}

fn is_blocked(job: &Job) -> bool {
    matches!(job.stage(), Stage::Blocked { on: BlockedOn::Deps })
}

fn stages(deps: &[(JobId, Option<Arc<Job>>)]) -> Vec<(JobId, Option<StageName>)> {
    deps.iter().map(|(id, job)| (*id, job.as_ref().map(|job| job.stage().name()))).collect()
}

/// The failed job that a blocked one waits for, directly or through other dependencies.
fn failed_dependency(spec: &Spec, deps: &[(JobId, Option<Arc<Job>>)]) -> Option<JobId> {
    let failed = |(id, job): &(JobId, Option<Arc<Job>>)| {
        let job = job.as_ref()?;
        match job.stage() {
            Stage::Failed { .. } | Stage::DeadLetter { .. } if spec.on_dep_failure != OnDepFailure::Ignore => Some(*id),
            _ => job.failed_dependency(),
        }
    };
    let failed: Vec<JobId> = deps.iter().filter_map(failed).collect();
    let is_stuck = match spec.deps_mode {
        DepsMode::All => true,
        DepsMode::Any => failed.len() == deps.len(),
    };
    failed.first().copied().filter(|_| is_stuck)
}

/// The state of dependencies in these stages.
pub(crate) fn verdict(spec: &Spec, deps: &[(JobId, Option<StageName>)]) -> DepsVerdict {
    let (mut met, mut waiting, mut failed) = (0, Vec::new(), Vec::new());
    for (dep, stage) in deps {
        match (stage, spec.on_dep_failure) {
            (Some(StageName::Shipped), _) => met += 1,
            (Some(StageName::Failed | StageName::DeadLetter), OnDepFailure::Ignore) => met += 1,
            (Some(StageName::Failed | StageName::DeadLetter), OnDepFailure::Fail) => failed.push(*dep),
            _ => waiting.push(*dep),
        }
    }
    let (is_met, is_hopeless) = match spec.deps_mode {
        DepsMode::All => (waiting.is_empty() && failed.is_empty(), !failed.is_empty()),
        DepsMode::Any => (met > 0 || deps.is_empty(), waiting.is_empty()),
    };
    match failed.first() {
        _ if is_met => DepsVerdict::Met,
        Some(dep) if is_hopeless => DepsVerdict::Failed(*dep),
        Some(_) | None => {
            waiting.extend(failed);
            DepsVerdict::Unmet(waiting)
        }
    }
}

//! Jobs that wait for other jobs. What is still unmet is asked, never counted down (row 19).

use std::collections::BTreeSet;

use domain::{DepsMode, FailureReason, Job, JobId, Obstacle, OnDepFailure, Spec, Stage, StageEvent, StageName};
use futures_util::{StreamExt as _, future, stream};
use tracing::{info, warn};

use crate::commit::Decision;
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::error::Error;

/// Changes under way at once: enough for one flush to carry many, few enough to let others in between.
pub(crate) const AT_ONCE_MAX: usize = 256;

/// What a job's dependencies come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DepsVerdict {
    /// Nothing holds the job back.
    Met,
    /// These do.
    Unmet(Vec<JobId>),
    /// This one failed, and the job follows it.
    Failed(JobId),
}

impl Coordinator {
    /// What a job's dependencies come to, as things are now.
    pub(crate) async fn weigh(&self, spec: &Spec, deps: &[JobId]) -> Result<DepsVerdict, Error> {
        let mut stages = Vec::with_capacity(deps.len());
        for dep in deps {
            stages.push((*dep, self.stage_of(*dep).await?));
        }
        Ok(verdict(spec, &stages))
    }

    /// Whether a job that was offered could not have been accepted, because a dependency is not met any more (row 20).
    pub(crate) async fn waits_for_deps(&self, id: JobId) -> Result<bool, Error> {
        let job = self.look_up(id).await?;
        let deps = &job.value.submission().deps;
        Ok(!deps.is_empty() && self.weigh(job.value.spec(), deps).await? != DepsVerdict::Met)
    }

    /// Where a job is; `None` if there is no such job.
    pub(crate) async fn stage_of(&self, id: JobId) -> Result<Option<StageName>, Error> {
        match self.look_up(id).await {
            Ok(job) => Ok(Some(job.value.stage().name())),
            Err(Error::NoSuchJob(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A job has come to rest: whoever waited for it is looked at again. Idempotent; the sweep does the same.
    pub(crate) async fn settle_waiters(&self, id: JobId) {
        let waiters = self.desk.lock().waiters(id);
        self.settle(waiters).await;
    }

    /// Moves blocked jobs on if their dependencies allow it, then whoever follows those that failed: one level of a chain
    /// after the other, so that a long one needs no more stack than a short one.
    pub(crate) async fn settle(&self, ids: Vec<JobId>) {
        let mut level: BTreeSet<JobId> = ids.into_iter().collect();
        while !level.is_empty() {
            let settled = stream::iter(level.into_iter().map(|id| self.settle_one(id)));
            let failed: Vec<JobId> = settled.buffer_unordered(AT_ONCE_MAX).filter_map(future::ready).collect().await;
            let desk = self.desk.lock();
            level = failed.into_iter().flat_map(|id| desk.waiters(id)).collect();
        }
    }

    /// Moves one blocked job on; the job again, if that means that it has failed.
    async fn settle_one(&self, id: JobId) -> Option<JobId> {
        match self.try_settle(id).await {
            Ok(Stage::Failed { reason: FailureReason::DepFailed }) => Some(id),
            Ok(_) => None,
            Err(error) => {
                warn!(job.id = %id, %error, "Could not look at the dependencies of job `{id}`, the sweep will");
                None
            }
        }
    }

    /// A job that a claim set aside may be offered again, as far as one of its dependencies goes.
    fn recall(&self, id: JobId) {
        let now = self.steady();
        let mut desk = self.desk.lock();
        if desk.is_set_aside(id) {
            desk.ripen(id, now);
            self.work.notify_one();
        }
    }

    async fn try_settle(&self, id: JobId) -> Result<Stage, Error> {
        let job = self.look_up(id).await?;
        if !is_blocked(&job.value) {
            self.recall(id);
            return Ok(job.value.stage().clone());
        }
        let event = match self.weigh(job.value.spec(), &job.value.submission().deps).await? {
            DepsVerdict::Unmet(_) => return Ok(job.value.stage().clone()),
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
        info!(job.id = %id, job.stage = %settled.value.stage().name(), "Dependencies of job `{id}` were weighed");
        Ok(settled.value.stage().clone())
    }
}

fn is_blocked(job: &Job) -> bool {
    matches!(job.stage(), Stage::Blocked { on: Obstacle::Deps })
}

/// What dependencies in these stages come to.
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

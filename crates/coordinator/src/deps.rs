//! Jobs that wait for other jobs. What is still unmet is asked, never counted down (row 19).

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    DepsMode, FailureReason, Job, JobId, Obstacle, OnDepFailure, ProductId, Spec, Stage, StageEvent, StageName,
    Submission,
};
use protocol::Submit;
use tracing::{info, warn};

use crate::commit::Decision;
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::error::Error;
use crate::principal::Principal;

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
    /// The ids that a manifest's `deps` mean, each of which must exist, and none of which may lead back here.
    pub(crate) async fn check_deps(
        &self,
        id: JobId,
        product: &ProductId,
        spec: &Spec,
        siblings: &BTreeMap<JobId, BTreeSet<JobId>>,
    ) -> Result<Vec<JobId>, Error> {
        let mut deps = Vec::with_capacity(spec.deps.len());
        for dep in &spec.deps {
            let wanted = dep.job(product);
            if wanted == id || reaches(siblings, wanted, id) {
                return Err(Error::DependencyCycle(format!("`{}` leads back to this job", String::from(dep.clone()))));
            }
            if !siblings.contains_key(&wanted) && self.stage_of(wanted).await?.is_none() {
                return Err(Error::NoSuchDep(String::from(dep.clone())));
            }
            if !deps.contains(&wanted) {
                deps.push(wanted);
            }
        }
        Ok(deps)
    }

    /// The dependency of a job that neither exists nor is among the jobs that are about to be written.
    pub(crate) async fn missing_dep(&self, job: &Job, ready: &BTreeSet<JobId>) -> Result<Option<String>, Error> {
        for dep in &job.spec().deps {
            let wanted = dep.job(job.product());
            if !ready.contains(&wanted) && self.stage_of(wanted).await?.is_none() {
                return Ok(Some(String::from(dep.clone())));
            }
        }
        Ok(None)
    }

    /// Whether a new job's dependencies are met already.
    pub(crate) async fn deps_state(
        &self,
        submission: &Submission,
        siblings: &BTreeMap<JobId, BTreeSet<JobId>>,
    ) -> Result<bool, Error> {
        if submission.deps.is_empty() {
            return Ok(true);
        }
        if submission.deps.iter().any(|dep| siblings.contains_key(dep)) {
            return Ok(false);
        }
        Ok(self.weigh(&submission.spec, &submission.deps).await? == DepsVerdict::Met)
    }

    /// The jobs of a batch that can be named by the others, with what they wait for.
    pub(crate) fn siblings(&self, who: &Principal, requests: &[Submit]) -> BTreeMap<JobId, BTreeSet<JobId>> {
        let mut siblings = BTreeMap::new();
        for request in requests {
            let Some(key) = &request.idempotency_key else { continue };
            let Ok(manifest) = domain::Manifest::parse(&request.body_md, domain::Strictness::Lenient) else { continue };
            let own = who.products();
            let product = manifest
                .spec
                .product
                .clone()
                .or_else(|| request.product_id.clone())
                .or_else(|| own.first().cloned())
                .unwrap_or_else(ProductId::default_product);
            let deps = manifest.spec.deps.iter().map(|dep| dep.job(&product)).collect();
            siblings.insert(JobId::derived(&product, key), deps);
        }
        siblings
    }

    /// What a job's dependencies come to, as things are now.
    pub(crate) async fn weigh(&self, spec: &Spec, deps: &[JobId]) -> Result<DepsVerdict, Error> {
        let (mut met, mut waiting, mut failed) = (0, Vec::new(), Vec::new());
        for dep in deps {
            match (self.stage_of(*dep).await?, spec.on_dep_failure) {
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
        Ok(match failed.first() {
            _ if is_met => DepsVerdict::Met,
            Some(dep) if is_hopeless => DepsVerdict::Failed(*dep),
            Some(_) | None => {
                waiting.extend(failed);
                DepsVerdict::Unmet(waiting)
            }
        })
    }

    /// Whether a job that was offered could not have been accepted, because a dependency is not met any more (row 20).
    pub(crate) async fn waits_for_deps(&self, id: JobId) -> Result<bool, Error> {
        let job = self.look_up(id).await?;
        let deps = &job.value.submission().deps;
        Ok(!deps.is_empty() && self.weigh(job.value.spec(), deps).await? != DepsVerdict::Met)
    }

    async fn stage_of(&self, id: JobId) -> Result<Option<StageName>, Error> {
        match self.look_up(id).await {
            Ok(job) => Ok(Some(job.value.stage().name())),
            Err(Error::NoSuchJob(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A job has come to rest: whoever waited for it is looked at again. Idempotent; the sweep does the same.
    pub(crate) async fn settle_waiters(&self, id: JobId) {
        let waiters = self.desk.lock().waiters(id);
        for waiter in waiters {
            self.settle(waiter).await;
        }
    }

    /// Moves a blocked job on if its dependencies allow it.
    pub(crate) async fn settle(&self, id: JobId) {
        if let Err(error) = self.try_settle(id).await {
            warn!(job.id = %id, %error, "Could not look at the dependencies of job `{id}`, the sweep will");
        }
    }

    async fn try_settle(&self, id: JobId) -> Result<(), Error> {
        let job = self.look_up(id).await?;
        if !is_blocked(&job.value) {
            return Ok(());
        }
        let event = match self.weigh(job.value.spec(), &job.value.submission().deps).await? {
            DepsVerdict::Unmet(_) => return Ok(()),
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
        if let Stage::Failed { reason: FailureReason::DepFailed } = settled.value.stage() {
            Box::pin(self.settle_waiters(id)).await;
        }
        Ok(())
    }
}

fn is_blocked(job: &Job) -> bool {
    matches!(job.stage(), Stage::Blocked { on: Obstacle::Deps })
}

/// Whether following dependencies from `from` comes to `to`.
fn reaches(graph: &BTreeMap<JobId, BTreeSet<JobId>>, from: JobId, to: JobId) -> bool {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(id) = next.pop() {
        if id == to {
            return true;
        }
        if seen.insert(id) {
            next.extend(graph.get(&id).into_iter().flatten().copied());
        }
    }
    false
}

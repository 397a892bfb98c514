//! Jobs that wait for other jobs. Unmet dependencies are queried, never counted down (row 19).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::{BlockedOn, DepsMode, Job, JobId, OnDepFailure, Spec, Stage, StageEvent, StageName};
use fail::fail_point;
use futures_util::{StreamExt as _, future, stream};
use tracing::{info, warn};

use crate::commit::{Decision, Target};
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::error::Error;

/// Concurrent changes: enough for one flush to batch many, few enough not to block other requests.
pub(crate) const AT_ONCE_MAX: usize = 256;

/// How often a job is checked again because children were added to it meanwhile.
const SETTLE_TRIES_MAX: u32 = 8;

/// The outcome of a check of a blocked job.
enum Settled {
    /// It ended, or it waits for a failed job: those that wait for it have to be checked too.
    Ended(Arc<Job>),
    /// They need no check.
    Quietly,
}

/// A job that another one waits for.
struct AwaitedJob {
    id: JobId,
    /// `None` if it does not exist.
    stage: Option<StageName>,
    /// The failed job that it waits for in its turn.
    failed_dependency: Option<JobId>,
    /// Whether no run of it is expected any more.
    is_settled: bool,
}

impl AwaitedJob {
    fn of(job: &Job) -> Self {
        Self {
            id: job.id(),
            stage: Some(job.stage().name()),
            failed_dependency: job.failed_dependency(),
            is_settled: job.is_settled(),
        }
    }

    /// A job that is not open, or does not exist.
    fn closed(id: JobId, stage: Option<StageName>) -> Self {
        Self { id, stage, failed_dependency: None, is_settled: stage.is_none_or(StageName::is_terminal) }
    }
}

/// What a job waits for.
struct Awaited {
    deps: Vec<AwaitedJob>,
    /// Children that have to ship.
    children: Vec<AwaitedJob>,
    /// Subtasks of its agent, if that waits for them.
    subtasks: Vec<AwaitedJob>,
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
    /// The current state of what a job waits for: its dependencies, and its children if it waits for them.
    pub(crate) async fn check_deps(&self, job: &Job) -> Result<DepsVerdict, Error> {
        Ok(verdict_of(job, &self.awaited_jobs(job).await?))
    }

    /// The dependencies, the awaited children and the awaited subtasks of a job.
    async fn awaited_jobs(&self, job: &Job) -> Result<Awaited, Error> {
        let deps = self.dependencies(&job.submission().deps).await?;
        let below = match job.awaits_children() || job.awaits_subtasks() {
            true => self.children_of(job.id()).await?,
            false => Vec::new(),
        };
        let (mut subtasks, mut children): (Vec<_>, Vec<_>) =
            below.into_iter().partition(|child| job.subtasks().contains(&child.id));
        if !job.awaits_children() {
            children.clear();
        }
        if !job.awaits_subtasks() {
            subtasks.clear();
        }
        Ok(Awaited { deps, children, subtasks })
    }

    /// A job's dependencies; without a stage for one that does not exist.
    async fn dependencies(&self, deps: &[JobId]) -> Result<Vec<AwaitedJob>, Error> {
        let mut found = Vec::with_capacity(deps.len());
        for dep in deps {
            found.push(match self.look_up(*dep).await {
                Ok(job) => AwaitedJob::of(&job.value),
                Err(Error::NoSuchJob(_)) => AwaitedJob::closed(*dep, None),
                Err(error) => return Err(error),
            });
        }
        Ok(found)
    }

    /// A job's children, queried: those that memory knows as open, and the others with their stored stages.
    async fn children_of(&self, id: JobId) -> Result<Vec<AwaitedJob>, Error> {
        let stored = self.ports.jobs.children(id).await?;
        let state = self.state.lock();
        let mut children: BTreeMap<JobId, AwaitedJob> =
            stored.into_iter().map(|(id, stage)| (id, AwaitedJob::closed(id, Some(stage)))).collect();
        for open in state.open_children(id) {
            if let Some(job) = state.job(open) {
                children.insert(open, AwaitedJob::of(&job.value));
            }
        }
        Ok(children.into_values().collect())
    }

    /// Whether an offered job could not have been accepted, because a dependency is unmet again (row 20).
    pub(crate) async fn waits_for_deps(&self, id: JobId) -> Result<bool, Error> {
        let job = self.look_up(id).await?;
        let waits = !job.value.submission().deps.is_empty() || job.value.awaits_children();
        Ok(waits && self.check_deps(&job.value).await? != DepsVerdict::Met)
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
    pub(crate) async fn settle_waiters(&self, job: &Job) {
        let followers = self.state.lock().followers(job);
        self.settle(followers).await;
    }

    /// Moves blocked jobs on if their dependencies and children allow it, then those that wait for them in their turn.
    /// It goes level by level, so that a long chain needs no more stack than a short one.
    pub(crate) async fn settle(&self, ids: Vec<JobId>) {
        let mut level: BTreeSet<JobId> = ids.into_iter().collect();
        while !level.is_empty() {
            let settled = stream::iter(level.into_iter().map(|id| self.settle_one(id)));
            let ended: Vec<Arc<Job>> = settled.buffer_unordered(AT_ONCE_MAX).filter_map(future::ready).collect().await;
            let state = self.state.lock();
            level = ended.into_iter().flat_map(|job| state.followers(&job)).collect();
        }
    }

    /// Moves one blocked job on; returns it if the jobs that wait for it have to be checked too.
    async fn settle_one(&self, id: JobId) -> Option<Arc<Job>> {
        match self.try_settle(id).await {
            Ok(Settled::Ended(job)) => Some(job),
            Ok(Settled::Quietly) | Err(Error::NoSuchJob(_)) => None,
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

    async fn try_settle(&self, id: JobId) -> Result<Settled, Error> {
        for tried in 0..SETTLE_TRIES_MAX {
            match self.settle_at(id).await {
                // It changed between the query and the write: children were added, or the write was answered late.
                Err(Error::Outdated) => {}
                Ok(Settled::Quietly) if tried > 0 => {
                    let job = self.look_up(id).await?.value;
                    return Ok(if job.stage().name().is_terminal() { Settled::Ended(job) } else { Settled::Quietly });
                }
                settled => return settled,
            }
        }
        Err(Error::Contended(id))
    }

    /// Moves a blocked job on, if it has not changed since its children were queried.
    async fn settle_at(&self, id: JobId) -> Result<Settled, Error> {
        let job = self.look_up(id).await?;
        if !is_blocked(&job.value) {
            self.recall(id);
            return Ok(Settled::Quietly);
        }
        if self.trees.is_growing(id) {
            // Its growth checks it again.
            return Ok(Settled::Quietly);
        }
        let awaited = self.awaited_jobs(&job.value).await?;
        let event = match verdict_of(&job.value, &awaited) {
            DepsVerdict::Unmet(_) => {
                let failed = failed_dependency(job.value.spec(), &awaited.deps)
                    .or_else(|| failed_dependency(job.value.spec(), &awaited.children));
                return self.note_failed_dependency(&job.value, failed).await;
            }
            DepsVerdict::Met if job.value.is_composite() => {
                StageEvent::ChildrenShipped { count: awaited.children.len() }
            }
            DepsVerdict::Met => StageEvent::Unblocked,
            DepsVerdict::Failed(dep) => StageEvent::DepFailed { dep },
        };
        fail_point!("settle::decided");
        let now = self.now();
        let expected = (job.value.awaits_children() || job.value.awaits_subtasks()).then_some(job.revision);
        let settled = self
            .amend(Target { id, expected }, |job| {
                if !is_blocked(&job) {
                    return Ok(Decision::Keep);
                }
                job.apply(event.clone(), now, COORDINATOR).map(Decision::Write)
            })
            .await?;
        info!(job.id = %id, job.stage = %settled.value.stage().name(), "Checked the dependencies of job {}", settled.value.label());
        Ok(match settled.value.stage().name().is_terminal() {
            true => Settled::Ended(settled.value),
            false => Settled::Quietly,
        })
    }

    /// Records the failed dependency that a blocked job waits for, so that lists, alerts and `wait` show it.
    async fn note_failed_dependency(&self, job: &Job, failed: Option<JobId>) -> Result<Settled, Error> {
        if failed == job.failed_dependency() {
            return Ok(Settled::Quietly);
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
            warn!(job.id = %id, "Job {label} is blocked: {} failed, which it waits for", self.label(dep));
        }
        Ok(Settled::Ended(noted.value))
    }
}

fn is_blocked(job: &Job) -> bool {
    matches!(job.stage(), Stage::Blocked { on: BlockedOn::Deps })
}

/// The state of what a job waits for. `depsMode` and `onDepFailure` hold for dependencies and children alike, each by
/// themselves. Subtasks are awaited until they are verified or have ended, however that is: their results are for the
/// agent to judge.
fn verdict_of(job: &Job, awaited: &Awaited) -> DepsVerdict {
    let stages = |jobs: &[AwaitedJob]| jobs.iter().map(|job| (job.id, job.stage)).collect::<Vec<_>>();
    let deps = verdict(job.spec(), &stages(&awaited.deps));
    let children = match awaited.children.is_empty() && job.is_composite() {
        // It has nothing to follow yet.
        true => DepsVerdict::Unmet(Vec::new()),
        false => verdict(job.spec(), &stages(&awaited.children)),
    };
    let unsettled: Vec<JobId> =
        awaited.subtasks.iter().filter(|subtask| !subtask.is_settled).map(|subtask| subtask.id).collect();
    let subtasks = if unsettled.is_empty() { DepsVerdict::Met } else { DepsVerdict::Unmet(unsettled) };
    deps.and(children).and(subtasks)
}

impl DepsVerdict {
    /// Both.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failed(dep), _) | (_, Self::Failed(dep)) => Self::Failed(dep),
            (Self::Met, other) => other,
            (one, Self::Met) => one,
            (Self::Unmet(mut one), Self::Unmet(other)) => {
                one.extend(other);
                Self::Unmet(one)
            }
        }
    }
}

/// The failed job that a blocked one waits for, directly or through other dependencies.
fn failed_dependency(spec: &Spec, deps: &[AwaitedJob]) -> Option<JobId> {
    let failed = |job: &AwaitedJob| match job.stage {
        Some(StageName::Failed | StageName::DeadLetter) if spec.on_dep_failure != OnDepFailure::Ignore => Some(job.id),
        _ => job.failed_dependency,
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

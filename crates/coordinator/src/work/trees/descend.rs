//! What goes down a tree: a cancellation and a new priority. Each is written after the commit that caused it, is
//! idempotent, and is repeated by the sweep.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use domain::{Actor, FailureReason, Job, JobId, Priority, Stage, StageEvent, Versioned};
use fail::fail_point;
use futures_util::{StreamExt as _, stream};
use protocol::Directive;
use tracing::{info, warn};

use crate::commit::{AmendOutcome, Decision};
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::error::Error;
use crate::submit::deps::AT_ONCE_MAX;

impl Coordinator {
    /// Repeats what a crash kept from going down a tree.
    pub(crate) async fn follow_trees(&self) {
        let (orphans, priorities) = {
            let state = self.state.lock();
            (state.closed_parents(), state.descending_priorities())
        };
        for parent in orphans {
            match self.cancelled_at_or_above(parent).await {
                Ok(Some(cancelled)) => self.cancel_below(&cancelled).await,
                Ok(None) => {}
                Err(error) => warn!(job.id = %parent, %error, "Could not check a parent that ended, the sweep retries"),
            }
        }
        for id in priorities {
            let job = self.state.lock().job(id);
            if let Some(job) = job {
                self.descend_priority(&job.value, &COORDINATOR).await;
            }
        }
    }

    /// Cancels the open jobs below a cancelled one.
    pub(crate) async fn cancel_below(&self, job: &Job) {
        if !is_cancelled(job) || !job.has_children() {
            return;
        }
        fail_point!("descend::cancelled");
        let below = match self.open_below(job).await {
            Ok(below) => below,
            Err(error) => {
                warn!(job.id = %job.id(), %error, "Could not read the jobs below job {}, the sweep retries", job.label());
                return self.mark_suspect();
            }
        };
        let message = format!("job {} above it was cancelled", job.label());
        let cancels = stream::iter(below.into_iter().map(|below| self.cancel_child(below, &message)));
        let cancelled: Vec<_> = cancels.buffer_unordered(AT_ONCE_MAX).collect().await;
        for job in cancelled.into_iter().flatten() {
            self.after_report(&job.value).await;
        }
    }

    async fn cancel_child(&self, child: Arc<Job>, message: &str) -> Option<Versioned<Arc<Job>>> {
        let id = child.id();
        let cancelled = self.try_amend(id, |job| {
            if job.stage().name().is_terminal() {
                return Ok(Decision::Keep);
            }
            let event = StageEvent::Cancelled { message: Some(message.to_owned()) };
            self.with_usage(job).apply(event, self.now(), COORDINATOR).map(Decision::Write)
        });
        match cancelled.await {
            Ok(AmendOutcome::Written(job)) => {
                info!(job.id = %id, "Cancelled job {}: {message}", job.value.label());
                if let Some(lease) = child.lease() {
                    let directive = Directive::Cancel { job_id: id, lease_epoch: lease.epoch };
                    self.inboxes.direct(&lease.factory, directive);
                }
                Some(job)
            }
            Ok(AmendOutcome::Kept(_)) => None,
            Err(error) => {
                warn!(job.id = %id, %error, "Could not cancel job {}, the sweep retries", child.label());
                None
            }
        }
    }

    /// Gives the priority of a job to the open jobs below it.
    pub(crate) async fn descend_priority(&self, job: &Job, by: &Actor) {
        if !job.priority_descends() {
            return;
        }
        fail_point!("descend::prioritised");
        if let Err(error) = self.try_descend_priority(job, by).await {
            warn!(job.id = %job.id(), %error, "Could not give the priority of job {} to the jobs below it, the sweep retries", job.label());
            self.mark_suspect();
        }
    }

    async fn try_descend_priority(&self, job: &Job, by: &Actor) -> Result<(), Error> {
        let priority = job.priority();
        let below = self.open_below(job).await?;
        let changes = stream::iter(below.into_iter().map(|below| self.prioritise(below.id(), priority, by)));
        let changed: Vec<Result<(), Error>> = changes.buffer_unordered(AT_ONCE_MAX).collect().await;
        changed.into_iter().collect::<Result<(), Error>>()?;
        let is_current = |job: &Job| job.priority_descends() && job.priority() == priority;
        let noted = self.amend(job.id(), |job| match is_current(&job) {
            true => Ok(Decision::Write(job.with_descended_priority())),
            false => Ok(Decision::Keep),
        });
        noted.await.map(drop)
    }

    async fn prioritise(&self, id: JobId, priority: Priority, by: &Actor) -> Result<(), Error> {
        let changed = self.amend(id, |job| {
            if job.stage().name().is_terminal() || job.priority() == priority {
                return Ok(Decision::Keep);
            }
            Ok(Decision::Write(job.with_priority(priority, self.now(), by.clone()).with_descended_priority()))
        });
        changed.await.map(drop)
    }

    /// The open jobs below a job, as far as they are written.
    async fn open_below(&self, job: &Job) -> Result<Vec<Arc<Job>>, Error> {
        let below = self.jobs_below(job).await?;
        Ok(below.into_iter().filter(|job| !job.stage().name().is_terminal()).collect())
    }

    /// The jobs below a job, on all levels; open ones as memory knows them.
    pub(crate) async fn jobs_below(&self, job: &Job) -> Result<Vec<Arc<Job>>, Error> {
        let root = job.tree().map_or(job.id(), |place| place.root_id);
        let stored = self.ports.jobs.tree(root).await?;
        let state = self.state.lock();
        let mut tree: HashMap<JobId, Arc<Job>> =
            stored.into_iter().map(|job| (job.value.id(), Arc::new(job.value))).collect();
        // A query may be behind the commits; memory is not.
        let mut open: Vec<JobId> = tree.keys().copied().chain([job.id()]).collect();
        while let Some(parent) = open.pop() {
            for id in state.open_children(parent) {
                if let Some(known) = state.job(id)
                    && tree.insert(id, known.value).is_none()
                {
                    open.push(id);
                }
            }
        }
        drop(state);
        let mut children: HashMap<JobId, Vec<JobId>> = HashMap::new();
        for (id, below) in &tree {
            children.entry(below.parent().unwrap_or(root)).or_default().push(*id);
        }
        let (mut next, mut met) = (vec![job.id()], BTreeSet::new());
        while let Some(parent) = next.pop() {
            let ids = children.remove(&parent).unwrap_or_default();
            next.extend(ids.into_iter().filter(|id| met.insert(*id)));
        }
        Ok(met.into_iter().filter_map(|id| tree.remove(&id)).collect())
    }

    /// The cancelled job above a job, if there is one.
    pub(crate) async fn cancelled_ancestor(&self, id: JobId) -> Result<Option<JobId>, Error> {
        let Some(parent) = self.look_up(id).await?.value.parent() else { return Ok(None) };
        Ok(self.cancelled_at_or_above(parent).await?.map(|job| job.id()))
    }

    /// A cancelled job, or the nearest one above it. An open job has no cancelled one above it for long.
    async fn cancelled_at_or_above(&self, id: JobId) -> Result<Option<Arc<Job>>, Error> {
        let mut next = Some(id);
        while let Some(id) = next {
            let job = match self.look_up(id).await {
                Ok(job) => job.value,
                Err(Error::NoSuchJob(_)) => return Ok(None),
                Err(error) => return Err(error),
            };
            if is_cancelled(&job) {
                return Ok(Some(job));
            }
            next = job.parent();
        }
        Ok(None)
    }
}

fn is_cancelled(job: &Job) -> bool {
    matches!(job.stage(), Stage::Failed { reason: FailureReason::Cancelled })
}

//! The compare-and-set loop of every job change.

pub(crate) mod cas_documents;
pub(crate) mod quarantine;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::{Commit, CommitError, Expected, Job, JobId, Refusal, Revision, StageName, Versioned};
use tracing::warn;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;

/// A lost race is normal; this many in a row means that writers contend for one job.
const COMMIT_ATTEMPTS_MAX: u32 = 16;

/// The outcome of a change to a job.
pub(crate) enum AmendOutcome {
    /// It was changed.
    Written(Versioned<Arc<Job>>),
    /// It needed no change.
    Kept(Versioned<Arc<Job>>),
}

/// The result of a decision.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack between a decision and its commit")]
pub(crate) enum Decision {
    /// Write this job.
    Write(Job),
    /// No change is needed.
    Keep,
}

/// A job to change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) id: JobId,
    /// Only if it is still at this revision.
    pub(crate) expected: Option<Revision>,
}

impl From<JobId> for Target {
    fn from(id: JobId) -> Self {
        Self { id, expected: None }
    }
}

impl Coordinator {
    /// Reads the job, lets `decide` change it, commits it by compare-and-set and announces it.
    pub(crate) async fn amend(
        &self,
        target: impl Into<Target>,
        decide: impl Fn(Job) -> Result<Decision, Refusal>,
    ) -> Result<Versioned<Arc<Job>>, Error> {
        match self.try_amend(target, decide).await? {
            AmendOutcome::Written(job) | AmendOutcome::Kept(job) => Ok(job),
        }
    }

    /// [`Coordinator::amend`] for callers that need to know whether they made the change.
    ///
    /// The first decision may use the copy in memory. A refusal based on it is decided again on a fresh read, and
    /// memory absorbs that read, so that the same stale refusal does not repeat.
    pub(crate) async fn try_amend(
        &self,
        target: impl Into<Target>,
        decide: impl Fn(Job) -> Result<Decision, Refusal>,
    ) -> Result<AmendOutcome, Error> {
        let Target { id, expected } = target.into();
        let mut current = self.remembered(id);
        let mut is_fresh = false;
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let before = match current.take() {
                Some(job) => job,
                None => {
                    is_fresh = true;
                    let job = self.read(id).await?;
                    self.announce(std::iter::once(&job));
                    job
                }
            };
            if expected.is_some_and(|expected| expected != before.revision) {
                if is_fresh {
                    return Err(Error::Outdated);
                }
                continue;
            }
            let job = match self.migrated((*before.value).clone()).and_then(&decide) {
                Ok(Decision::Write(job)) => job,
                Ok(Decision::Keep) => return Ok(AmendOutcome::Kept(before)),
                Err(_) if !is_fresh => continue,
                Err(refusal) => {
                    self.counters.conflict();
                    return Err(refusal.into());
                }
            };
            let unit = job.commit_at(Expected::At(before.revision), None);
            match self.commit_one(unit).await {
                Ok(written) => return Ok(AmendOutcome::Written(written)),
                Err(CommitError::Stale) => {}
                Err(CommitError::Unknown) => {
                    warn!(job.id = %id, "The outcome of a commit of job {} is unknown, reading the job again", before.value.label());
                }
                Err(CommitError::Store(error)) => return Err(error.into()),
            }
        }
        Err(Error::Contended(id))
    }

    /// Commits one unit and absorbs the result into memory.
    pub(crate) async fn commit_one(&self, unit: Commit) -> Result<Versioned<Arc<Job>>, CommitError> {
        let mut outcomes = self.commit_all(vec![unit]).await;
        outcomes.pop().unwrap_or(Err(CommitError::Stale))
    }

    /// Commits independent units together, absorbs what was written into memory and wakes its waiters.
    pub(crate) async fn commit_all(&self, mut units: Vec<Commit>) -> Vec<Result<Versioned<Arc<Job>>, CommitError>> {
        for unit in &mut units {
            unit.job.set_order(self.order.fetch_add(1, Ordering::Relaxed) + 1);
        }
        let jobs: Vec<_> = units.iter().map(|unit| (Arc::new(unit.job.clone()), unit.body.clone())).collect();
        // A caller dropped half-way leaves a write that memory does not know.
        let unheard = SweepOnDrop(self);
        let results = self.ports.jobs.commit(units).await;
        self.note_space(results.iter());
        let mut outcomes = Vec::with_capacity(jobs.len());
        for ((job, body), result) in jobs.into_iter().zip(results) {
            let id = job.id();
            let outcome = match result {
                Ok(revision) => Ok(Versioned { value: job, revision }),
                Err(CommitError::Unknown) => {
                    self.mark_suspect();
                    self.resolve_unknown(job).await
                }
                Err(error) => Err(error),
            };
            match (&outcome, body) {
                (Ok(_), Some(body)) => self.manifests.keep(id, body, self.ports.clock.monotonic()),
                (Err(CommitError::Stale), _) => self.counters.conflict(),
                _ => {}
            }
            outcomes.push(outcome);
        }
        self.announce(outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()));
        unheard.finish();
        outcomes
    }

    /// A commit that timed out may have happened: a read decides (row 32).
    async fn resolve_unknown(&self, job: Arc<Job>) -> Result<Versioned<Arc<Job>>, CommitError> {
        match self.ports.jobs.job(job.id()).await? {
            Some(found) if found.value == *job => Ok(Versioned { value: job, revision: found.revision }),
            Some(_) | None => Err(CommitError::Unknown),
        }
    }

    /// Absorbs committed jobs into memory and wakes the dispatcher and the timer.
    pub(crate) fn announce<'a>(&self, written: impl Iterator<Item = &'a Versioned<Arc<Job>>>) {
        let moment = self.state_time();
        let (mut has_work, mut is_changed) = (false, false);
        let (is_sooner, ended_offers) = {
            let mut state = self.state.lock();
            let before = state.timing();
            for job in written {
                // The sweep repeats jobs that are known.
                if !state.knows(job) && !std::mem::replace(&mut is_changed, true) {
                    self.record_step(&state);
                }
                let is_news = state.absorb(job.clone(), moment);
                has_work |= is_news;
                if is_news && job.value.stage().name() == StageName::Assigned {
                    self.metrics_history.record_claim(job.value.product());
                }
                self.progress.settle(&job.value);
                if job.value.seat().is_none() && state.has_ceiling(job.value.product()) {
                    // A run may have ended: what it reserved and did not spend is free again.
                    self.budgets.note_behind(job.value.product());
                }
                if is_news && job.value.submission().item.is_some() {
                    self.tracker.note(job.value.id());
                }
                // A run may have begun or ended with it.
                self.log_notifier.ring(job.value.id());
            }
            (state.timing().is_sooner_than(&before), state.take_ended_offers())
        };
        for (factory, message) in ended_offers {
            self.inboxes.settle(&factory, message);
            self.publisher.forget(message);
        }
        if is_changed {
            self.live.note();
        }
        if has_work {
            self.work.notify_one();
        }
        if is_sooner {
            self.timer.notify_one();
        }
    }

    /// The job as last committed.
    pub(crate) async fn read(&self, id: JobId) -> Result<Versioned<Arc<Job>>, Error> {
        let found = self.ports.jobs.job(id).await?.ok_or(Error::NoSuchJob(id))?;
        Ok(Versioned { value: Arc::new(found.value), revision: found.revision })
    }

    /// The job from memory if it is open, otherwise from the store.
    pub(crate) async fn look_up(&self, id: JobId) -> Result<Versioned<Arc<Job>>, Error> {
        match self.remembered(id) {
            Some(job) => Ok(job),
            None => self.read(id).await,
        }
    }

    /// Checks that a job is still at the revision that a change expects.
    pub async fn expect_revision(&self, who: &Principal, id: JobId, expected: Option<Revision>) -> Result<(), Error> {
        let Some(expected) = expected else { return Ok(()) };
        let job = self.read(id).await?;
        if !who.sees(job.value.product()) {
            return Err(Error::NoSuchJob(id));
        }
        if job.revision == expected { Ok(()) } else { Err(Error::Outdated) }
    }

    fn remembered(&self, id: JobId) -> Option<Versioned<Arc<Job>>> {
        self.state.lock().job(id)
    }

    /// The first write of a job.
    pub(crate) fn first(job: Job, body: domain::Body) -> Commit {
        job.commit_at(Expected::Absent, Some(body))
    }
}

/// Dropped early, it makes the sweep compare memory with the store.
struct SweepOnDrop<'a>(&'a Coordinator);

impl SweepOnDrop<'_> {
    fn finish(self) {
        std::mem::forget(self);
    }
}

impl Drop for SweepOnDrop<'_> {
    fn drop(&mut self) {
        self.0.mark_suspect();
    }
}

//! Seats reserved while a claim is being written: concurrent plans count them as taken.

use std::sync::Arc;

use domain::{Job, JobId, Mode, ProductId, Stage, Timestamp, Versioned};
use foldhash::{HashMap, HashMapExt as _};
use scheduler::{Placement, Weights};

use super::FleetState;

impl FleetState {
    /// Takes a waiting job out of the queue and reserves its seat, until [`FleetState::let_go`] or a commit of the job.
    pub(crate) fn hold(&mut self, placement: &Placement) -> Option<Versioned<Arc<Job>>> {
        let job = self.job(placement.job)?;
        self.leave_queue(placement.job);
        self.expect_engine(placement.job, placement.engine.clone());
        self.occupy(&job.value, placement.factory.clone());
        Some(job)
    }

    /// Places arriving jobs and reserves their seats until they are committed or [`FleetState::release_seat`]. The
    /// queue is empty, so none of them overtakes another job, and all of them leave the queue again under the same
    /// lock.
    pub(crate) fn seat_submitted<'a>(
        &mut self,
        jobs: impl Iterator<Item = &'a Job>,
        now: Timestamp,
        weights: &Weights,
        limit: usize,
    ) -> Vec<Placement> {
        if !self.queue.is_empty() {
            return Vec::new();
        }
        // A known job was submitted before: its seat belongs to another request. Of several with one id the first is
        // written.
        let mut arriving: HashMap<JobId, &Job> = HashMap::new();
        for job in jobs {
            arriving.entry(job.id()).or_insert(job);
        }
        arriving.retain(|id, job| is_free(job) && !self.jobs.contains_key(id));
        for job in arriving.values() {
            self.enqueue(job, now);
        }
        let placements = scheduler::plan(&self.view(now, weights, limit)).placements;
        for id in arriving.keys() {
            self.leave_queue(*id);
            self.waiting_since.remove(id);
        }
        for placement in &placements {
            if let Some(job) = arriving.get(&placement.job) {
                self.expect_engine(placement.job, placement.engine.clone());
                self.occupy(job, placement.factory.clone());
            }
        }
        placements
    }

    /// Releases the seat reserved for a job that was not written; returns whether there was one.
    pub(crate) fn release_seat(&mut self, id: JobId) -> bool {
        let is_written = self.jobs.contains_key(&id);
        if !is_written {
            self.engines.remove(&id);
            self.leave_seat(id);
        }
        !is_written
    }

    /// Releases the seat of a held job, but keeps the job out of the queue: it has an unmet dependency. It is checked
    /// again when a dependency ends, or at `until`.
    pub(crate) fn park(&mut self, id: JobId, until: Timestamp) {
        self.leave_seat(id);
        let Some(job) = self.job(id) else { return };
        for dep in &job.value.submission().deps {
            self.waiters.entry(*dep).or_default().insert(id);
        }
        self.postpone(id, until);
    }

    /// Whether a dispatchable job was set aside: jobs in the queue have no unmet dependencies.
    pub(crate) fn is_parked(&self, id: JobId) -> bool {
        let Some(open) = self.jobs.get(&id) else { return false };
        let job = &open.job;
        let is_waiter = |dep| self.waiters.get(dep).is_some_and(|waiters| waiters.contains(&id));
        is_free(&job.value) && job.value.submission().deps.iter().any(is_waiter)
    }

    /// Returns a held job to the queue, unless it has moved on, and increments its product's version: requests in
    /// between did not find it. Returns whether it is back.
    pub(crate) fn let_go(&mut self, id: JobId, now: Timestamp) -> bool {
        let is_back = self.put_back(id, now);
        if is_back && let Some(product) = self.jobs.get(&id).map(|open| open.job.value.product().clone()) {
            self.touch(&product);
        }
        is_back
    }

    /// [`FleetState::let_go`] of a job that no other request can have missed.
    pub(crate) fn put_back(&mut self, id: JobId, now: Timestamp) -> bool {
        let is_unmoved = self.jobs.get(&id).is_some_and(|open| is_free(&open.job.value));
        let is_out = is_unmoved && self.queue.get(&id).is_none();
        if is_out {
            self.engines.remove(&id);
            self.reseat(id, now);
        }
        is_out
    }

    /// Whether a job waits for a seat.
    pub(crate) fn has_waiting_jobs(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether this job waits for a seat.
    pub(crate) fn is_waiting(&self, id: JobId) -> bool {
        self.queue.get(&id).is_some()
    }

    /// The products with waiting jobs.
    pub(crate) fn waiting_products(&self) -> impl Iterator<Item = &ProductId> {
        self.queue.products()
    }

    /// Whether a job waits that the coordinator has to offer.
    pub(crate) fn has_something_to_push(&self) -> bool {
        self.queue.products().any(|product| self.modes.mode_of(product) == Mode::Push)
    }

    /// Increments the versions of all products with waiting jobs.
    pub(crate) fn touch_waiting(&mut self) {
        let products: Vec<_> = self.queue.products().cloned().collect();
        for product in products {
            self.touch(&product);
        }
    }

    /// Increments a product's version after a change that its jobs do not show.
    pub(crate) fn touch(&mut self, product: &ProductId) {
        *self.versions.entry(product.clone()).or_default() += 1;
    }
}

/// Whether a job waits only for an offer.
fn is_free(job: &Job) -> bool {
    matches!(job.stage(), Stage::Queued { dispatch: None, .. })
}

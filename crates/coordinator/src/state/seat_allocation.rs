//! Seats that are kept while a claim is being written: whoever plans meanwhile sees them as taken.

use std::sync::Arc;

use domain::{Job, JobId, Mode, ProductId, Stage, Timestamp, Versioned};
use foldhash::{HashMap, HashMapExt as _};
use scheduler::{Placement, Weights};

use super::FleetState;

impl FleetState {
    /// Takes a waiting job out of the queue and keeps its seat, until [`Desk::let_go`] or a commit of the job.
    pub(crate) fn hold(&mut self, placement: &Placement) -> Option<Versioned<Arc<Job>>> {
        let job = self.job(placement.job)?;
        self.leave_queue(placement.job);
        self.expect_engine(placement.job, placement.engine.clone());
        self.occupy(&job.value, placement.factory.clone());
        Some(job)
    }

    /// Where jobs that arrive go, with their seats kept until they are committed or [`Desk::give_up_seat`]. Nobody waits:
    /// none of them overtakes anybody, and all of them are gone from the queue again before anybody else can look.
    pub(crate) fn seat_arrivals<'a>(
        &mut self,
        jobs: impl Iterator<Item = &'a Job>,
        now: Timestamp,
        weights: &Weights,
        limit: usize,
    ) -> Vec<Placement> {
        if !self.queue.is_empty() {
            return Vec::new();
        }
        // A job that is known was submitted before: its seat is not ours. Of several with one id the first is written.
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

    /// Gives back the seat that was kept for a job which was not written after all; says whether there was one.
    pub(crate) fn give_up_seat(&mut self, id: JobId) -> bool {
        let is_written = self.jobs.contains_key(&id);
        if !is_written {
            self.engines.remove(&id);
            self.leave_seat(id);
        }
        !is_written
    }

    /// Gives back the seat of a job that is held, but leaves it out of the queue: it waits for others after all, and is
    /// looked at again when one of them comes to rest, or then.
    pub(crate) fn set_aside(&mut self, id: JobId, until: Timestamp) {
        self.leave_seat(id);
        let Some(job) = self.job(id) else { return };
        for dep in &job.value.submission().deps {
            self.waiters.entry(*dep).or_default().insert(id);
        }
        self.put_off(id, until);
    }

    /// Whether a job that could be offered was set aside: in the queue nobody is anybody's waiter.
    pub(crate) fn is_set_aside(&self, id: JobId) -> bool {
        let Some(open) = self.jobs.get(&id) else { return false };
        let job = &open.job;
        let is_waiter = |dep| self.waiters.get(dep).is_some_and(|waiters| waiters.contains(&id));
        is_free(&job.value) && job.value.submission().deps.iter().any(is_waiter)
    }

    /// Puts a job that was held back where it was, unless it has moved on, and moves its product's version: whoever asked
    /// meanwhile did not find it. Says whether it is back.
    pub(crate) fn let_go(&mut self, id: JobId, now: Timestamp) -> bool {
        let is_back = self.put_back(id, now);
        if is_back && let Some(product) = self.jobs.get(&id).map(|open| open.job.value.product().clone()) {
            self.touch(&product);
        }
        is_back
    }

    /// [`Desk::let_go`] of a job that nobody can have missed.
    pub(crate) fn put_back(&mut self, id: JobId, now: Timestamp) -> bool {
        let is_unmoved = self.jobs.get(&id).is_some_and(|open| is_free(&open.job.value));
        let is_out = is_unmoved && self.queue.get(&id).is_none();
        if is_out {
            self.engines.remove(&id);
            self.reseat(id, now);
        }
        is_out
    }

    /// Whether anything waits that the coordinator has to offer.
    pub(crate) fn has_something_to_push(&self) -> bool {
        self.queue.products().any(|product| self.modes.mode_of(product) == Mode::Push)
    }

    /// Something has changed that the jobs of those who wait do not show.
    pub(crate) fn touch_waiting(&mut self) {
        let products: Vec<_> = self.queue.products().cloned().collect();
        for product in products {
            self.touch(&product);
        }
    }

    /// Something about a product has changed that its jobs do not show.
    pub(crate) fn touch(&mut self, product: &ProductId) {
        *self.versions.entry(product.clone()).or_default() += 1;
    }
}

/// Whether a job waits for nothing but an offer.
fn is_free(job: &Job) -> bool {
    matches!(job.stage(), Stage::Queued { dispatch: None, .. })
}

//! The fast path of submit: while the queue is empty, a job is offered in the write that submits it, one flush earlier
//! than in the dispatcher's next round. The recorded events are the same.
//!
//! Jobs of concurrent requests go to the dispatcher, which plans, writes and publishes them together at a lower cost.

use std::sync::atomic::Ordering;

use domain::{Job, JobId};
use fail::fail_point;
use foldhash::{HashMap, HashMapExt as _};
use scheduler::Placement;
use tracing::debug;

use crate::coordinator::Coordinator;
use crate::dispatch::{DispatchTarget, ROUND_MAX};
use crate::submit::validate::ValidatedJob;

/// Seats reserved for offers that are being written. When it is dropped, the offers themselves count, or the seats are
/// free again.
pub(crate) struct ReservedSeats<'a> {
    coordinator: &'a Coordinator,
    jobs: Vec<JobId>,
}

impl Drop for ReservedSeats<'_> {
    fn drop(&mut self) {
        self.coordinator.arriving.fetch_sub(1, Ordering::Relaxed);
        let is_free = {
            let mut state = self.coordinator.state.lock();
            self.jobs.iter().fold(false, |is_free, id| state.release_seat(*id) | is_free)
        };
        if is_free {
            self.coordinator.work.notify_one();
        }
    }
}

impl Coordinator {
    /// Offers arriving jobs to factories with free seats, unless other jobs wait or other requests arrive.
    pub(crate) fn offer_arrivals(&self, arriving: &mut [ValidatedJob]) -> ReservedSeats<'_> {
        let mut kept = ReservedSeats { coordinator: self, jobs: Vec::new() };
        let is_alone = self.arriving.fetch_add(1, Ordering::Relaxed) == 0;
        let mut placements = if is_alone { self.seat_submitted(arriving) } else { HashMap::new() };
        for arrival in arriving {
            let id = arrival.job.id();
            let Some(placement) = placements.remove(&id) else { continue };
            kept.jobs.push(id);
            match self.offered(arrival.job.clone(), DispatchTarget::of(&placement, None)) {
                Ok(offered) => arrival.job = offered,
                Err(refusal) => debug!(job.id = %id, %refusal, "Job {} cannot be offered at submit", id.short()),
            }
        }
        kept
    }

    fn seat_submitted(&self, arriving: &[ValidatedJob]) -> HashMap<JobId, Placement> {
        fail_point!("arrival::queued", |_| HashMap::new());
        let is_dispatching = self.dispatching.load(Ordering::Relaxed) && !self.stopping.is_cancelled();
        // The dispatcher counts seats when it plans, and takes them after it has written.
        let (true, Ok(_allocation)) = (is_dispatching, self.seat_allocation.try_read()) else { return HashMap::new() };
        let now = self.steady();
        // The dispatcher counts what is left of a ceiling.
        let mut state = self.state.lock();
        let may_start = |job: &&Job| !state.has_ceiling(job.product()) && state.paused_by(job).is_none();
        let jobs: Vec<_> = arriving.iter().map(|arrival| &arrival.job).filter(may_start).collect();
        let placements = state.seat_submitted(jobs.into_iter(), now, &self.settings.weights, ROUND_MAX);
        placements.into_iter().map(|placement| (placement.job, placement)).collect()
    }
}

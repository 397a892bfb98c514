//! Seats that running jobs were asked to give up for critical jobs [S5]. The truth is stored with the running jobs.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Epoch, FactoryId, Job, JobId, Preemption, Timestamp};
use protocol::Directive;
use scheduler::{Eviction, PendingPreemption, PreemptibleRun, Seat, Weights};

use super::{FleetState, StateTime};

/// Evictions decided in one round.
const EVICTIONS_MAX: usize = 64;

/// Requested seats, and the runs that may be asked for theirs.
#[derive(Default)]
pub(crate) struct Preemptions {
    /// By critical job: each has at most one request at a time.
    requests: BTreeMap<JobId, SeatRequest>,
    /// Preemptible jobs with a lease.
    runs: BTreeSet<JobId>,
}

/// A seat that a running job was asked to give up.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeatRequest {
    /// The running job.
    pub(crate) victim: JobId,
    /// The request as stored.
    pub(crate) preemption: Preemption,
    /// The end of [`Preemption::keep_until`] in steady time.
    keep_until: Timestamp,
}

impl Preemptions {
    pub(crate) fn add_run(&mut self, id: JobId) {
        self.runs.insert(id);
    }

    pub(crate) fn remove_run(&mut self, id: JobId) {
        self.runs.remove(&id);
    }
}

impl FleetState {
    /// Follows the stored request of a running job, and forgets that of a critical job that no longer waits.
    pub(super) fn note_preemption(&mut self, job: &Job, moment: StateTime) {
        let id = job.id();
        let is_queued = job.stage().name() == domain::StageName::Queued;
        if !is_queued && self.preemptions.requests.remove(&id).is_some() {
            self.fleet.unreserve(&id);
        }
        let Some(preemption) = job.preemption() else { return };
        let known = self.jobs.get(&id).and_then(|open| open.job.value.preemption());
        if known == Some(preemption) || preemption.keep_until <= moment.wall {
            return;
        }
        // After a start the critical job may be known already.
        let waits = |job: &Job| job.stage().name() == domain::StageName::Queued;
        if self.jobs.get(&preemption.for_job).is_some_and(|open| !waits(&open.job.value)) {
            return;
        }
        let keep_until = moment.steady.after(preemption.keep_until.since(moment.wall));
        let request = SeatRequest { victim: id, preemption: preemption.clone(), keep_until };
        self.preemptions.requests.insert(preemption.for_job, request);
    }

    /// Keeps a freed seat for the waiting job that it was requested for. Without a request nothing changes.
    pub(super) fn keep_freed_seat(&mut self, for_job: Option<JobId>) {
        let Some(id) = for_job else { return };
        let Some(request) = self.preemptions.requests.get(&id) else { return };
        let Some(waiting) = self.queue.get(&id) else { return };
        if self.fleet.reservations().contains_key(&id) || self.holds(request.victim, request.preemption.epoch) {
            return;
        }
        let seat = Seat {
            factory: request.preemption.factory.clone(),
            product: waiting.shape.product.clone(),
            repo: waiting.shape.repo.clone(),
            engine: request.preemption.engine.clone(),
        };
        self.fleet.reserve(id, seat);
    }

    fn holds(&self, id: JobId, epoch: Epoch) -> bool {
        self.jobs.get(&id).and_then(|open| open.job.value.seat()).is_some_and(|lease| lease.epoch == epoch)
    }

    /// The running jobs that have to give up their seats for critical jobs.
    pub(crate) fn evictions(&self, now: Timestamp, weights: &Weights) -> Vec<Eviction> {
        if self.preemptions.runs.is_empty() || self.queue.is_empty() {
            return Vec::new();
        }
        let held = self.preemptions.requests.iter().filter(|(_, one)| self.holds(one.victim, one.preemption.epoch));
        let pending: Vec<_> =
            held.map(|(for_job, one)| PendingPreemption { victim: one.victim, for_job: *for_job }).collect();
        let runs = self.preemptions.runs.iter().filter_map(|id| self.jobs.get(id)).map(|open| &open.job.value);
        let running: Vec<_> = runs
            .filter(|job| job.pending_preemption().is_none())
            .filter_map(|job| {
                let granted_at = job.seat()?.granted_at;
                Some(PreemptibleRun { job: job.id(), priority: job.priority(), granted_at })
            })
            .collect();
        scheduler::evictions(&self.view(now, weights, EVICTIONS_MAX), &running, &pending, EVICTIONS_MAX)
    }

    /// The seat that was requested for a critical job.
    pub(crate) fn seat_request(&self, for_job: JobId) -> Option<&SeatRequest> {
        self.preemptions.requests.get(&for_job)
    }

    /// Whether a requested seat is free and kept for its job.
    pub(crate) fn is_seat_kept(&self, for_job: JobId) -> bool {
        self.fleet.reservations().contains_key(&for_job)
    }

    /// The job that gave up its seat on a factory for a waiting job.
    pub(crate) fn preempted_for(&self, for_job: JobId, factory: &FactoryId) -> Option<JobId> {
        let seat = self.fleet.reservations().get(&for_job)?;
        let request = self.preemptions.requests.get(&for_job)?;
        (seat.factory == *factory).then_some(request.victim)
    }

    /// Whether a job still needs the seat that was requested for it.
    pub(crate) fn needs_seat(&self, for_job: JobId) -> bool {
        self.queue.get(&for_job).is_some()
    }

    /// The requests that a factory has to obey.
    pub(crate) fn preemption_directives(&self, factory: &FactoryId) -> Vec<Directive> {
        let requests = self.preemptions.requests.iter();
        let active = requests.filter(|(for_job, request)| {
            let preemption = &request.preemption;
            preemption.factory == *factory && self.needs_seat(**for_job) && self.holds(request.victim, preemption.epoch)
        });
        active.map(|(_, request)| directive(request.victim, &request.preemption)).collect()
    }

    /// When the next kept seat is released.
    pub(crate) fn next_kept_seat(&self) -> Option<Timestamp> {
        self.preemptions.requests.values().map(|request| request.keep_until).min()
    }

    /// Releases the seats that were kept long enough; returns whether there were any.
    pub(crate) fn release_kept_seats(&mut self, now: Timestamp) -> bool {
        let requests = self.preemptions.requests.iter();
        let over: Vec<JobId> = requests.filter(|(_, request)| request.keep_until <= now).map(|(id, _)| *id).collect();
        for id in &over {
            self.preemptions.requests.remove(id);
            self.fleet.unreserve(id);
        }
        !over.is_empty()
    }
}

/// The order to give up a seat.
pub(crate) fn directive(victim: JobId, preemption: &Preemption) -> Directive {
    Directive::Preempt { job_id: victim, lease_epoch: preemption.epoch }
}

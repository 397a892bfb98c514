//! Preemption: which running job gives up its seat for a critical job [S5].

use std::cmp::Reverse;
use std::collections::BTreeSet;

use domain::{EngineName, FactoryId, JobId, Priority, Timestamp};

use crate::constraints::Constraints;
use crate::fleet::Seat;
use crate::overlay::FleetOverlay;
use crate::plan::Placement;
use crate::queue::{WaitingJob, class_of};
use crate::score::Score;
use crate::view::{Demand, FleetView};

/// A running job that may be preempted.
#[derive(Debug, Clone)]
pub struct PreemptibleRun {
    /// The job.
    pub job: JobId,
    /// Its current priority.
    pub priority: Priority,
    /// When its lease was granted: a later one loses less work.
    pub granted_at: Timestamp,
}

/// A seat that a running job was asked to give up, and the job it is for.
#[derive(Debug, Clone)]
pub struct PendingPreemption {
    /// The running job.
    pub victim: JobId,
    /// The waiting job.
    pub for_job: JobId,
}

/// A running job that has to give up its seat.
#[derive(Debug, Clone, PartialEq)]
pub struct Eviction {
    /// The running job.
    pub victim: JobId,
    /// The critical job that gets the seat.
    pub for_job: JobId,
    /// The factory of the seat.
    pub factory: FactoryId,
    /// The engine that the critical job would use.
    pub engine: Option<EngineName>,
    /// The score of the factory for the critical job.
    pub score: Score,
}

/// Selects a victim for each critical job that no free seat fits, at most `limit`.
///
/// A victim runs where the critical job is eligible once the victim's seat is free: nothing is evicted in vain. The
/// lowest priority is evicted first, then the run that started last, then the lower id. A factory that the critical job
/// avoids is the last resort. Each job has one eviction at a time, and critical jobs are never evicted, so no eviction
/// leads to another.
pub fn evictions(
    view: &FleetView,
    running: &[PreemptibleRun],
    pending: &[PendingPreemption],
    limit: usize,
) -> Vec<Eviction> {
    if running.is_empty() {
        return Vec::new();
    }
    let mut overlay = FleetOverlay::of(view);
    let mut without_victim = BTreeSet::new();
    let mut spoken_for: BTreeSet<JobId> = pending.iter().map(|pending| pending.victim).collect();
    for pending in pending {
        promise(&mut overlay, view, pending);
    }
    let has_seat: BTreeSet<JobId> =
        pending.iter().map(|pending| pending.for_job).chain(view.fleet.reservations().keys().copied()).collect();
    let mut evictions = Vec::new();
    for waiting in critical(view, limit).filter(|waiting| !has_seat.contains(&waiting.job)) {
        if evictions.len() >= limit {
            break;
        }
        if without_victim.contains(&waiting.shape) {
            continue;
        }
        let constraints = overlay.constraints(waiting.demand());
        if let Some(choice) = overlay.choose(&constraints) {
            // A free seat fits: the next plan or poll takes it.
            let placement = choice.placement(waiting.job, constraints.weights);
            overlay.occupy(&placement, &waiting.shape);
            continue;
        }
        let Some(eviction) = victim(&overlay, waiting, running, &spoken_for) else {
            without_victim.insert(&waiting.shape);
            continue;
        };
        spoken_for.insert(eviction.victim);
        if let Some(seat) = view.fleet.seat(&eviction.victim) {
            overlay.replace(Some(seat), &seat_for(waiting, &eviction.factory, eviction.engine.clone()));
        }
        evictions.push(eviction);
    }
    evictions
}

/// Waiting jobs of priority `critical`, whatever their product: the longest waiting first, `limit` of each shape.
fn critical<'v>(view: &FleetView<'v>, limit: usize) -> impl Iterator<Item = &'v WaitingJob> {
    let class = class_of(Priority::Critical);
    let mut jobs: Vec<&WaitingJob> = Vec::new();
    for (_, line) in view.queue.lines() {
        for head in line.heads(class) {
            let first = Some(head.place);
            let places = std::iter::successors(first, |place| line.next(&head.shape, class, Some(*place)));
            jobs.extend(places.take(limit).filter_map(|place| view.queue.get(&place.1)));
        }
    }
    jobs.sort_by_key(|waiting| (waiting.since, waiting.job));
    jobs.into_iter()
}

/// Counts the seat that a job was promised, instead of its current holder's.
fn promise(overlay: &mut FleetOverlay, view: &FleetView, pending: &PendingPreemption) {
    let (Some(seat), Some(waiting)) = (view.fleet.seat(&pending.victim), view.queue.get(&pending.for_job)) else {
        return;
    };
    overlay.replace(Some(seat), &seat_for(waiting, &seat.factory, seat.engine.clone()));
}

fn seat_for(waiting: &WaitingJob, factory: &FactoryId, engine: Option<EngineName>) -> Seat {
    let shape = &waiting.shape;
    Seat { factory: factory.clone(), product: shape.product.clone(), repo: shape.repo.clone(), engine }
}

fn victim(
    overlay: &FleetOverlay,
    waiting: &WaitingJob,
    running: &[PreemptibleRun],
    spoken_for: &BTreeSet<JobId>,
) -> Option<Eviction> {
    let candidates = running.iter().filter(|run| run.priority != Priority::Critical && !spoken_for.contains(&run.job));
    let fits = candidates.filter_map(|run| {
        let seat = overlay.view.fleet.seat(&run.job)?;
        let constraints = overlay.constraints_without(waiting.demand(), seat);
        let (engine, score) = overlay.consider_without(seat, &constraints)?;
        Some((run, seat, engine, score))
    });
    let order = |run: &PreemptibleRun, seat: &Seat| {
        let is_avoided = waiting.avoid.as_ref() == Some(&seat.factory);
        (is_avoided, Reverse(run.priority), Reverse(run.granted_at), run.job)
    };
    let (run, seat, engine, score) = fits.min_by_key(|(run, seat, ..)| order(run, seat))?;
    Some(Eviction { victim: run.job, for_job: waiting.job, factory: seat.factory.clone(), engine, score })
}

impl FleetOverlay<'_> {
    /// The placement of a job on the seat that is kept for it, if the factory is still eligible.
    pub(crate) fn at_reserved_seat(&self, waiting: &WaitingJob, seat: &Seat) -> Option<Placement> {
        let demand: Demand = waiting.demand();
        let constraints: Constraints = self.constraints_without(demand, seat);
        let (engine, score) = self.consider_without(seat, &constraints)?;
        Some(Placement {
            job: waiting.job,
            factory: seat.factory.clone(),
            engine,
            score,
            weights: constraints.weights,
            runners_up: Vec::new(),
        })
    }
}

//! In-memory state: open jobs and the indexes derived from them.
//!
//! The store is authoritative. The state is rebuilt from it at the start, updated by every commit and compared by the
//! sweep.

pub(crate) mod closed_jobs;
pub(crate) mod deadlines;
pub(crate) mod errands;
pub(crate) mod factories;
pub(crate) mod instances;
pub(crate) mod leases;
pub(crate) mod manifest_cache;
pub(crate) mod money;
pub(crate) mod offer_answers;
pub(crate) mod pools;
pub(crate) mod preemptions;
mod products;
pub(crate) mod profiles;
pub(crate) mod progress;
mod seat_allocation;
mod usage_windows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::{
    BlockedOn, DispatchModes, EngineName, Factory, FactoryId, Job, JobId, JobPause, MessageId, Mode, Product,
    ProductId, Revision, Shape, ShapeKey, Stage, StageName, TREE_LEVELS_MAX, Timestamp, Versioned,
};
use foldhash::HashMap;
use scheduler::{EngineUnavailable, Fleet, FleetView, Queue, Seat, WaitingJob, Weights};

use crate::state::closed_jobs::ClosedJobs;
use crate::state::deadlines::Deadlines;
use crate::state::errands::Errands;
use crate::state::factories::Liveness;
use crate::state::instances::Instances;
use crate::state::leases::{Leases, Process};
use crate::state::money::Money;
use crate::state::offer_answers::OfferAnswers;
use crate::state::pools::PoolBook;
use crate::state::preemptions::Preemptions;
use crate::work::quota_windows::QuotaWindows;

/// One point in time on the clocks that the state uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateTime {
    /// The wall clock.
    pub(crate) wall: Timestamp,
    /// Time without jumps.
    pub(crate) steady: Timestamp,
    /// When a lease that begins now expires, on the monotonic clock.
    pub(crate) lease_expires: Duration,
}

/// The times the timer has to wake up at.
pub(crate) struct NextWake {
    deadline: Option<Timestamp>,
    leases: bool,
}

impl NextWake {
    /// Whether a timer that sleeps until `before` would wake up too late for this.
    pub(crate) fn is_sooner_than(&self, before: &Self) -> bool {
        let has_first_lease = self.leases && !before.leases;
        let is_nearer = match (self.deadline, before.deadline) {
            (Some(deadline), Some(former)) => deadline < former,
            (Some(_), None) => true,
            (None, _) => false,
        };
        has_first_lease || is_nearer
    }
}

/// An open job with its times in steady time.
struct OpenJob {
    job: Versioned<Arc<Job>>,
    /// When its last change was written.
    changed: Timestamp,
    due: Option<Timestamp>,
}

impl OpenJob {
    /// A stored time may be off by any jump of the wall clock. A time in the future counts as now; a deadline is at
    /// most as far away as it was when it was written.
    fn new(job: Versioned<Arc<Job>>, known: Option<&Self>, moment: StateTime) -> Self {
        let updated_at = job.value.updated_at();
        let changed = moment.steady.before(moment.wall.since(updated_at));
        let unchanged = known.filter(|known| known.job.value.due() == job.value.due());
        let due = match unchanged {
            Some(known) => known.due,
            None => job.value.due().map(|due| changed.after(due.since(updated_at))),
        };
        Self { job, changed, due }
    }
}

/// Open jobs and the indexes derived from them. Every time is steady time, see `Coordinator::steady`.
#[derive(Default)]
pub(crate) struct FleetState {
    jobs: HashMap<JobId, OpenJob>,
    /// One shared value per shape, for as long as a job of that shape waits.
    shapes: HashMap<ShapeKey, Arc<Shape>>,
    /// When each waiting job began to wait.
    waiting_since: HashMap<JobId, Timestamp>,
    /// Blocked jobs by dependency.
    waiters: HashMap<JobId, BTreeSet<JobId>>,
    /// Open children by parent.
    children: HashMap<JobId, BTreeSet<JobId>>,
    deadlines: Deadlines,
    closed: ClosedJobs,
    errands: Errands,
    versions: BTreeMap<ProductId, u64>,
    /// Queued jobs by product.
    pending: BTreeMap<ProductId, u64>,
    /// Jobs that wait for a person.
    needing: BTreeSet<JobId>,
    /// Jobs that each factory holds or is offered.
    seated: HashMap<FactoryId, BTreeSet<JobId>>,
    /// The engine whose seat each offer uses, if the plan is known.
    engines: HashMap<JobId, EngineName>,
    fleet: Fleet,
    queue: Queue,
    modes: DispatchModes,
    products: BTreeMap<ProductId, Product>,
    /// Beside the products, because the scheduler reads those alone.
    product_revisions: BTreeMap<ProductId, Revision>,
    factories: BTreeMap<FactoryId, Versioned<Factory>>,
    liveness: HashMap<FactoryId, Liveness>,
    instances: Instances,
    leases: Leases,
    offer_answers: OfferAnswers,
    /// Offers that ended since the last call of [`FleetState::take_ended_offers`].
    ended_offers: Vec<(FactoryId, MessageId)>,
    quota_windows: QuotaWindows,
    money: Money,
    preemptions: Preemptions,
    pools: PoolBook,
}

impl FleetState {
    /// An open job, as last committed.
    pub(crate) fn job(&self, id: JobId) -> Option<Versioned<Arc<Job>>> {
        self.jobs.get(&id).map(|open| open.job.clone())
    }

    /// All open jobs.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Versioned<Arc<Job>>> {
        self.jobs.values().map(|open| &open.job)
    }

    /// Open jobs that wait for a person, among a few others.
    pub(crate) fn jobs_needing_people(&self) -> impl Iterator<Item = &Versioned<Arc<Job>>> {
        self.needing.iter().filter_map(|id| self.jobs.get(id)).map(|open| &open.job)
    }

    /// How many jobs are open.
    pub(crate) fn open_count(&self) -> usize {
        self.jobs.len()
    }

    /// How many jobs wait for a seat: those of `products`, or all if that is empty.
    pub(crate) fn waiting_count(&self, products: &BTreeSet<ProductId>) -> usize {
        match products.is_empty() {
            true => self.queue.len(),
            false => products.iter().map(|product| self.queue.len_of(product)).sum(),
        }
    }

    /// The dispatch mode of a product.
    pub(crate) fn mode_of(&self, product: &ProductId) -> Mode {
        self.modes.mode_of(product)
    }

    /// Replaces the dispatch modes.
    pub(crate) fn set_modes(&mut self, modes: DispatchModes) {
        self.modes = modes;
    }

    /// The scheduler's view of the state.
    pub(crate) fn view<'a>(&'a self, now: Timestamp, weights: &'a Weights, limit: usize) -> FleetView<'a> {
        let (fleet, queue, products, flags) = (&self.fleet, &self.queue, &self.products, &self.modes);
        let pools = self.pools.declared();
        FleetView { now, fleet, queue, products, out_of_money: self.out_of_money(), flags, pools, weights, limit }
    }

    /// Whether the state has this revision of a job, or a newer one.
    pub(crate) fn knows(&self, job: &Versioned<Arc<Job>>) -> bool {
        let id = job.value.id();
        let known = self.jobs.get(&id).map(|known| known.job.revision).or_else(|| self.closed.revision(id));
        known.is_some_and(|known| known >= job.revision)
    }

    /// Adds a committed job to the state. A revision older than the known one changes nothing, so commits may be
    /// absorbed in any order and any number of times. Returns whether to wake the dispatcher or the timer.
    pub(crate) fn absorb(&mut self, job: Versioned<Arc<Job>>, moment: StateTime) -> bool {
        let id = job.value.id();
        if self.knows(&job) {
            return false;
        }
        *self.versions.entry(job.value.product().clone()).or_default() += 1;
        self.note_ended_offer(&job.value);
        let was_paused = self.jobs.get(&id).is_some_and(|known| known.job.value.pause().is_some());
        let open = OpenJob::new(job, self.jobs.get(&id), moment);
        let job = &open.job;
        let is_paused = job.value.pause().is_some();
        self.note_preemption(&job.value, moment);
        let was_known = self.forget(id);
        if job.value.seat().is_none() && job.value.dispatch().is_none() {
            self.engines.remove(&id);
        }
        match job.value.seat() {
            Some(lease) => {
                let process = Process { factory: lease.factory.clone(), instance: lease.instance };
                self.leases.begin(id, process, lease.epoch, moment.lease_expires);
            }
            None => self.leases.end(id),
        }
        let asked_for = job.value.preemption().map(|preemption| preemption.for_job);
        if job.value.stage().name().is_terminal() {
            self.closed.note(id, job.revision);
            self.keep_freed_seat(asked_for);
            if was_paused {
                self.reseat_below(id, moment.steady);
            }
            return was_known;
        }
        self.place(&open, moment.steady);
        self.jobs.insert(id, open);
        self.keep_freed_seat(asked_for);
        if was_paused != is_paused {
            self.reseat_below(id, moment.steady);
        }
        true
    }

    /// The paused job that holds a job: itself, or the nearest open one above it in its tree.
    pub(crate) fn paused_by(&self, job: &Job) -> Option<(JobId, JobPause)> {
        if let Some(pause) = job.pause() {
            return Some((job.id(), pause.clone()));
        }
        let mut next = job.parent();
        for _ in 0..TREE_LEVELS_MAX {
            let above = &self.jobs.get(&next?)?.job.value;
            if let Some(pause) = above.pause() {
                return Some((above.id(), pause.clone()));
            }
            next = above.parent();
        }
        None
    }

    /// Updates the indexes of the open jobs below one that was paused or resumed.
    fn reseat_below(&mut self, id: JobId, now: Timestamp) {
        let mut next = self.open_children(id);
        while let Some(below) = next.pop() {
            next.extend(self.open_children(below));
            self.reseat(below, now);
        }
    }

    /// An offer that ends returns its credit: accepted, declined, expired or cancelled (row 33).
    fn note_ended_offer(&mut self, job: &Job) {
        let Some(known) = self.jobs.get(&job.id()) else { return };
        let Some(offer) = known.job.value.dispatch() else { return };
        if job.dispatch().is_none_or(|now| now.seq != offer.seq) {
            self.ended_offers.push((offer.target.clone(), MessageId::of_offer(job.id(), offer.seq)));
        }
    }

    /// Returns and clears the offers that ended since the last call.
    pub(crate) fn take_ended_offers(&mut self) -> Vec<(FactoryId, MessageId)> {
        std::mem::take(&mut self.ended_offers)
    }

    /// Whether the offer of a message is still open.
    pub(crate) fn is_offered(&self, message: MessageId) -> bool {
        let offer = self.jobs.get(&message.job).and_then(|open| open.job.value.dispatch());
        offer.is_some_and(|offer| offer.seq == message.seq && !message.shadow)
    }

    /// Adds a job to the indexes of its stage.
    fn place(&mut self, open: &OpenJob, now: Timestamp) {
        let (job, id) = (&open.job.value, open.job.value.id());
        let is_ripe = open.due.is_none_or(|due| due <= now);
        if may_need_people(job) {
            self.needing.insert(id);
        }
        if let Some(parent) = job.parent() {
            self.children.entry(parent).or_default().insert(id);
        }
        if job.spec().preemptible && job.seat().is_some() {
            self.preemptions.add_run(id);
        }
        if job.stage().name() == StageName::Queued {
            *self.pending.entry(job.product().clone()).or_default() += 1;
        }
        match job.stage() {
            Stage::Queued { dispatch: Some(offer), .. } => self.occupy(job, offer.target.clone()),
            // It waits until it is resumed, and has no deadline.
            Stage::Queued { dispatch: None, .. } if self.paused_by(job).is_some() => return,
            Stage::Queued { dispatch: None, .. } if is_ripe => self.enqueue(job, open.due.unwrap_or(open.changed)),
            Stage::Blocked { on: BlockedOn::Deps } => {
                for dep in &job.submission().deps {
                    self.waiters.entry(*dep).or_default().insert(id);
                }
            }
            Stage::Assigned { lease } | Stage::Building { lease, .. } => self.occupy(job, lease.factory.clone()),
            Stage::Review { errand: Some(errand), .. } | Stage::Testing { errand: Some(errand), .. } => {
                if self.errands.note(job, errand, is_ripe) {
                    return;
                }
            }
            Stage::Queued { .. }
            | Stage::Blocked { .. }
            | Stage::Review { .. }
            | Stage::Testing { .. }
            | Stage::Shipped
            | Stage::Failed { .. }
            | Stage::DeadLetter { .. } => {}
        }
        if let Some(due) = open.due
            && self.queue.get(&id).is_none()
        {
            self.deadlines.set(id, due);
        }
    }

    fn enqueue(&mut self, job: &Job, since: Timestamp) {
        let shape = self.shape(job);
        let waiting = WaitingJob { job: job.id(), shape, priority: job.priority(), since, avoid: job.avoid().cloned() };
        self.waiting_since.insert(job.id(), since);
        self.queue.insert(waiting);
        self.keep_freed_seat(Some(job.id()));
    }

    fn occupy(&mut self, job: &Job, factory: FactoryId) {
        self.leave_seat(job.id());
        let started = job.run().and_then(|run| run.engine.clone());
        let engine = started
            .or_else(|| self.engines.get(&job.id()).cloned())
            .or_else(|| self.likely_engine(&factory, &job.spec().engines));
        self.seated.entry(factory.clone()).or_default().insert(job.id());
        let seat = Seat { factory, product: job.product().clone(), repo: job.spec().repo.clone(), engine };
        self.fleet.occupy(job.id(), seat);
    }

    /// The engine that a job probably gets on a factory, when the plan is not known.
    fn likely_engine(&self, factory: &FactoryId, wanted: &[EngineName]) -> Option<EngineName> {
        let is_unavailable =
            |engine: &EngineName| self.fleet.get(factory).is_some_and(|state| state.resting.contains_key(engine));
        let offered = self.factories.get(factory)?.value.engines().filter(|engine| !is_unavailable(engine));
        let offered: BTreeSet<EngineName> = offered.collect();
        match wanted {
            [] => offered.into_iter().next(),
            wanted => wanted.iter().find(|engine| offered.contains(engine)).cloned(),
        }
    }

    /// The engine whose seat a job uses on the factory that holds it.
    pub(crate) fn engine_of(&self, job: &Job) -> Option<EngineName> {
        let lease = job.seat()?;
        self.engines.get(&job.id()).cloned().or_else(|| self.likely_engine(&lease.factory, &job.spec().engines))
    }

    /// Why a factory cannot run a job although it has an engine for it: all of those engines are unavailable.
    pub(crate) fn unavailability_of(&self, job: &Job, factory: &FactoryId) -> Option<String> {
        let resting = &self.fleet.get(factory)?.resting;
        let wanted = &job.spec().engines;
        let offered = self.factories.get(factory)?.value.engines();
        let mut usable = offered.filter(|engine| wanted.is_empty() || wanted.contains(engine)).peekable();
        usable.peek()?;
        let reasons: Option<Vec<String>> = usable.map(|engine| Some(engine_problem(resting.get(&engine)?))).collect();
        reasons.map(|reasons| reasons.join(", "))
    }

    /// Records the engine whose seat a plan gives to a job.
    pub(crate) fn expect_engine(&mut self, id: JobId, engine: Option<EngineName>) {
        match engine {
            Some(engine) => self.engines.insert(id, engine),
            None => self.engines.remove(&id),
        };
    }

    /// The engine whose seat an offer uses.
    pub(crate) fn expected_engine(&self, id: JobId) -> Option<EngineName> {
        self.engines.get(&id).cloned()
    }

    /// Removes a job from every index.
    fn forget(&mut self, id: JobId) -> bool {
        self.leave_queue(id);
        // A job not in memory may hold a seat too: a later write of it may have been absorbed first.
        self.leave_seat(id);
        let Some(known) = self.jobs.remove(&id) else { return false };
        let known = known.job;
        if known.value.stage().name() == StageName::Queued
            && let Some(pending) = self.pending.get_mut(known.value.product())
        {
            *pending = pending.saturating_sub(1);
        }
        self.errands.remove(id);
        self.needing.remove(&id);
        self.preemptions.remove_run(id);
        self.waiting_since.remove(&id);
        self.deadlines.clear(id);
        for dep in &known.value.submission().deps {
            leave_group(&mut self.waiters, *dep, id);
        }
        if let Some(parent) = known.value.parent() {
            leave_group(&mut self.children, parent, id);
        }
        true
    }

    fn leave_queue(&mut self, id: JobId) {
        let Some(waiting) = self.queue.remove(&id) else { return };
        self.fleet.unreserve(&id);
        let key = waiting.shape.key();
        drop(waiting);
        if self.shapes.get(&key).is_some_and(|shape| Arc::strong_count(shape) == 1) {
            self.shapes.remove(&key);
        }
    }

    fn leave_seat(&mut self, id: JobId) {
        let Some(seat) = self.fleet.vacate(&id) else { return };
        if let Some(seated) = self.seated.get_mut(&seat.factory) {
            seated.remove(&id);
            if seated.is_empty() {
                self.seated.remove(&seat.factory);
            }
        }
    }

    /// Jobs that a factory holds or is offered.
    pub(crate) fn seated(&self, factory: &FactoryId) -> impl Iterator<Item = &Versioned<Arc<Job>>> {
        self.seated.get(factory).into_iter().flatten().filter_map(|id| self.jobs.get(id)).map(|open| &open.job)
    }

    /// One shared value per shape.
    fn shape(&mut self, job: &Job) -> Arc<Shape> {
        Arc::clone(self.shapes.entry(job.shape_key()).or_insert_with(|| Arc::new(job.shape())))
    }

    /// The backoff of a job or an errand is over: it may be offered now. Nothing is written.
    pub(crate) fn ripen(&mut self, id: JobId, now: Timestamp) {
        if let Some(product) = self.jobs.get(&id).map(|open| open.job.value.product().clone()) {
            // Clients that wait for a new queue version have to be notified.
            self.touch(&product);
        }
        self.reseat(id, now);
    }

    /// Updates the indexes of a job for the current time.
    fn reseat(&mut self, id: JobId, now: Timestamp) {
        let Some(known) = self.jobs.get(&id) else { return };
        let open = OpenJob { job: known.job.clone(), ..*known };
        self.forget(id);
        self.place(&open, now);
        self.jobs.insert(id, open);
    }

    /// Jobs whose deadline has passed.
    pub(crate) fn overdue(&self, now: Timestamp, limit: usize) -> Vec<JobId> {
        self.deadlines.expired(now, limit)
    }

    /// The times the timer has to wake up at.
    pub(crate) fn timing(&self) -> NextWake {
        NextWake { deadline: self.next_deadline(), leases: !self.leases.is_empty() }
    }

    /// The next deadline.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.next()
    }

    /// Postpones a deadline: the job is checked again then, and not before.
    pub(crate) fn postpone(&mut self, id: JobId, until: Timestamp) {
        self.deadlines.set(id, until);
    }

    /// Removes a deadline.
    pub(crate) fn drop_deadline(&mut self, id: JobId) {
        self.deadlines.clear(id);
    }

    /// Blocked jobs that name `dep` among their dependencies.
    pub(crate) fn waiters(&self, dep: JobId) -> Vec<JobId> {
        self.waiters.get(&dep).map(|ids| ids.iter().copied().collect()).unwrap_or_default()
    }

    /// Jobs that may wait for one that has ended: those that name it as a dependency, and its parent.
    pub(crate) fn followers(&self, job: &Job) -> Vec<JobId> {
        let mut followers = self.waiters(job.id());
        followers.extend(job.parent().filter(|parent| self.jobs.contains_key(parent)));
        followers
    }

    /// Open children of a job, in order of id.
    pub(crate) fn open_children(&self, parent: JobId) -> Vec<JobId> {
        self.children.get(&parent).map(|ids| ids.iter().copied().collect()).unwrap_or_default()
    }

    /// Parents that have ended, or do not exist, while a child is open.
    pub(crate) fn closed_parents(&self) -> Vec<JobId> {
        self.children.keys().filter(|parent| !self.jobs.contains_key(*parent)).copied().collect()
    }

    /// Jobs whose new priority is still on its way to the jobs below.
    pub(crate) fn descending_priorities(&self) -> Vec<JobId> {
        self.jobs().filter(|job| job.value.priority_descends()).map(|job| job.value.id()).collect()
    }

    /// Jobs that wait for dependencies.
    pub(crate) fn blocked(&self) -> Vec<JobId> {
        let is_blocked =
            |job: &&Versioned<Arc<Job>>| matches!(job.value.stage(), Stage::Blocked { on: BlockedOn::Deps });
        self.jobs().filter(is_blocked).map(|job| job.value.id()).collect()
    }

    /// Sorts loaded jobs by the order of their writes. A time later than that of a job written afterwards is wrong: the
    /// wall clock was ahead (row 36).
    pub(crate) fn restore_order(&mut self) {
        let waits = |open: &&OpenJob| open.due.is_none() && self.queue.get(&open.job.value.id()).is_some();
        let mut waiting: Vec<_> = self.jobs.values().filter(waits).map(|open| (open.job.value.order(), open)).collect();
        waiting.sort_by_key(|(order, open)| (*order, open.changed, open.job.value.id()));
        let mut later: Vec<(JobId, Timestamp)> = Vec::new();
        let mut limit: Option<Timestamp> = None;
        for (order, open) in waiting.into_iter().rev() {
            let id = open.job.value.id();
            let since = match limit {
                Some(limit) if order > 0 && open.changed > limit => limit.before(Duration::from_millis(1)),
                _ => open.changed,
            };
            limit = Some(since);
            if since != open.changed {
                later.push((id, since));
            }
        }
        for (id, since) in later {
            self.correct_time(id, since);
        }
    }

    fn correct_time(&mut self, id: JobId, since: Timestamp) {
        let Some(open) = self.jobs.get_mut(&id) else { return };
        open.changed = since;
        let job = Arc::clone(&open.job.value);
        self.leave_queue(id);
        self.enqueue(&job, since);
    }

    /// The highest order number of any open job.
    pub(crate) fn last_order(&self) -> u64 {
        self.jobs().map(|job| job.value.order()).max().unwrap_or(0)
    }

    /// Since when a job waits for a seat.
    pub(crate) fn waiting_since(&self, id: JobId) -> Option<Timestamp> {
        self.waiting_since.get(&id).copied()
    }

    /// The version of a product's queue, and how many of its jobs wait for a seat.
    pub(crate) fn queue_version(&self, product: &ProductId) -> (u64, u64) {
        let read = |counts: &BTreeMap<ProductId, u64>| counts.get(product).copied().unwrap_or(0);
        (read(&self.versions), read(&self.pending))
    }
}

fn leave_group(groups: &mut HashMap<JobId, BTreeSet<JobId>>, key: JobId, member: JobId) {
    let Some(group) = groups.get_mut(&key) else { return };
    group.remove(&member);
    if group.is_empty() {
        groups.remove(&key);
    }
}

/// Whether an open job may wait for a person: a question, a review, a merge, a failed dependency.
fn may_need_people(job: &Job) -> bool {
    match job.stage() {
        Stage::Blocked { on: BlockedOn::Question(_) } | Stage::Review { .. } | Stage::Testing { errand: None, .. } => {
            true
        }
        Stage::Blocked { on: BlockedOn::Deps } => job.failed_dependency().is_some(),
        _ => job.is_escalated(),
    }
}

fn engine_problem(rest: &EngineUnavailable) -> String {
    match rest {
        EngineUnavailable::Window(window) => window.to_string(),
        EngineUnavailable::Paused { until, problem } => format!("paused until {}: {problem}", until.to_the_second()),
        EngineUnavailable::Unusable { problem } => problem.clone(),
    }
}

#[cfg(test)]
mod tests {
    use domain::{Actor, DepsState, Manifest, StageEvent, Strictness, Submission};

    use super::*;

    fn job() -> Job {
        let manifest = Manifest::parse("# Mend the gate\n", Strictness::Strict).unwrap();
        let submission = Submission {
            id: JobId::from_bytes([1; 16]),
            product: ProductId::default_product(),
            spec: manifest.spec,
            deps: Vec::new(),
            tree: None,
            profile: None,
            item: None,
            idempotency_key: None,
            body_sha256: String::new(),
            by: "ada".to_owned(),
            owner: None,
            at: Timestamp::default(),
        };
        Job::submit(submission, DepsState::Met)
    }

    #[test]
    fn a_job_that_ends_leaves_every_index() {
        let mut state = FleetState::default();
        let at = Timestamp::default();
        let moment = StateTime { wall: at, steady: at, lease_expires: Duration::ZERO };
        let (job, product) = (job(), ProductId::default_product());
        let ended = job.clone().apply(StageEvent::Cancelled { message: None }, at, Actor::Coordinator).unwrap();

        state.absorb(Versioned { value: Arc::new(job), revision: Revision(1) }, moment);
        let while_it_waits = (state.shapes.len(), state.queue_version(&product));
        state.absorb(Versioned { value: Arc::new(ended), revision: Revision(2) }, moment);

        assert_eq!(while_it_waits, (1, (1, 1)));
        assert_eq!((state.shapes.len(), state.queue_version(&product)), (0, (2, 0)));
    }
}

//! The dispatcher: wakes when a placement may be possible, plans without I/O, writes the offers and publishes them.

pub(crate) mod accept;
pub(crate) mod announcer;
pub(crate) mod claim;
pub(crate) mod inbox;
pub(crate) mod modes;
pub(crate) mod offers;
pub(crate) mod preemption;
pub(crate) mod publisher;
pub(crate) mod shadow;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::{Commit, CommitError, Dispatch, Expected, FactoryId, Job, JobId, Message, Refusal, StageEvent, Versioned};
use fail::fail_point;
use foldhash::{HashMap, HashMapExt as _};
use protocol::PlacementDecision;
use scheduler::Placement;
use serde_json::json;
use tracing::{debug, warn};

use crate::coordinator::{COORDINATOR, Coordinator};
use crate::maintenance::sweep::TRY_AGAIN_AFTER;
use crate::state::FleetState;
use crate::state::money::Purses;

/// Placements per round; one flush writes them all. In larger rounds the first would wait for the last.
pub(crate) const ROUND_MAX: usize = 256;

/// Whether an offer is published for the first time: only then is it an error if the broker calls it a duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Publish {
    /// It was just written.
    First,
    /// It may have been published before.
    Again,
}

impl Coordinator {
    /// Dispatches until the coordinator stops.
    pub(crate) async fn run_dispatcher(&self) {
        self.dispatching.store(true, Ordering::Relaxed);
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.work.notified() => {}
            }
            while self.dispatch_round().await > 0 && !self.stopping.is_cancelled() {}
            self.tend_pools().await;
        }
    }

    /// Places every job that can be placed now; returns the number of offers. Safe to run concurrently: the offer is
    /// written by compare-and-set, and only the target of the current offer can accept (row 12).
    pub async fn dispatch_round(&self) -> usize {
        let sent = self.offer_round().await;
        self.compare_plan();
        self.announce_jobs();
        sent
    }

    async fn offer_round(&self) -> usize {
        // Claims reserve the seats they count; this plan does not, so it excludes claims until it is written.
        let allocation =
            if self.state.lock().has_something_to_push() { Some(self.seat_allocation.write().await) } else { None };
        let (mut units, mut offers) = if allocation.is_some() { self.plan_round() } else { Default::default() };
        let (errand_units, errand_offers) = self.plan_errands();
        units.extend(errand_units);
        offers.extend(errand_offers);
        if units.is_empty() {
            drop(allocation);
            self.request_preemptions().await;
            return 0;
        }
        fail_point!("dispatch::planned");
        let stamped = self.commit_all(units).await;
        drop(allocation);
        fail_point!("dispatch::stamped");
        let mut sent = 0;
        for (outcome, id) in stamped.into_iter().zip(offers) {
            match outcome {
                Ok(job) => {
                    self.publish(&job.value, Publish::First);
                    sent += 1;
                }
                Err(CommitError::Stale) => self.refresh(id).await,
                Err(CommitError::Unknown) => {
                    self.refresh(id).await;
                    self.retry_soon(id);
                }
                Err(CommitError::Store(error)) => {
                    warn!(job.id = %id, %error, "Could not record a dispatch of job {}, retrying", self.label(id));
                    self.mark_suspect();
                    self.retry_soon(id);
                }
            }
        }
        fail_point!("dispatch::published");
        sent
    }

    /// Retries a job that could not be offered and still waits: otherwise only the sweep would wake the dispatcher for
    /// it.
    fn retry_soon(&self, id: JobId) {
        let until = self.steady().after(TRY_AGAIN_AFTER);
        let mut state = self.state.lock();
        let waits = state.job(id).is_some_and(|job| job.value.dispatch().is_none() && job.value.lease().is_none());
        if waits {
            state.postpone(id, until);
            self.timer.notify_one();
        }
    }

    /// The plan as commits that may lose their race.
    fn plan_round(&self) -> (Vec<Commit>, Vec<JobId>) {
        let now = self.steady();
        let mut state = self.state.lock();
        if !state.has_waiting_jobs() {
            return (Vec::new(), Vec::new());
        }
        let plan = scheduler::plan(&state.view(now, &self.settings.weights, ROUND_MAX));
        let live = |job: JobId| self.live_spend(job);
        let (mut purses, mut is_short) = (state.purses(self.now(), &live), false);
        let mut units = Vec::with_capacity(plan.placements.len());
        let mut offers = Vec::with_capacity(plan.placements.len());
        for placement in &plan.placements {
            let Some(job) = state.job(placement.job) else { continue };
            if !purses.is_empty() && !self.affords(&mut state, &mut purses, &job.value, placement) {
                is_short = true;
                continue;
            }
            if let Some(since) = state.waiting_since(placement.job) {
                self.note_dispatched(&placement.factory, now.since(since));
            }
            let preempted = state.preempted_for(placement.job, &placement.factory);
            if let Some(unit) = self.stamp(&job, DispatchTarget::of(placement, preempted)) {
                state.expect_engine(placement.job, placement.engine.clone());
                offers.push(placement.job);
                units.push(unit);
            }
        }
        drop(state);
        if is_short {
            // Other products may use the seats.
            self.weigh_money();
            self.work.notify_one();
        }
        (units, offers)
    }

    /// Whether a product can pay for a placement; if not, it waits for money.
    fn affords(&self, state: &mut FleetState, purses: &mut Purses, job: &Job, placement: &Placement) -> bool {
        let engine = placement.engine.as_ref();
        let billing = engine.and_then(|engine| state.billing_at(&placement.factory, engine));
        state.afford(purses, job, billing)
    }

    /// Promotions and merges without a factory: short, and they use no seat.
    fn plan_errands(&self) -> (Vec<Commit>, Vec<JobId>) {
        let now = self.steady();
        let state = self.state.lock();
        let (mut units, mut offers) = (Vec::new(), Vec::new());
        let view = state.view(now, &self.settings.weights, ROUND_MAX);
        let mut planned: HashMap<FactoryId, usize> = HashMap::new();
        for id in state.ready_errands(ROUND_MAX) {
            let Some(job) = state.job(id) else { continue };
            let shape = job.value.shape();
            let on_their_way = |factory: &FactoryId| planned.get(factory).copied().unwrap_or(0);
            let has_capacity = |factory: &FactoryId| state.has_errand_capacity(factory, on_their_way(factory));
            let ask = |avoid: Option<&FactoryId>| scheduler::errand(&view, &shape, avoid);
            // The least loaded factory may have its maximum of errands: then another one gets it.
            let target =
                ask(job.value.avoid()).and_then(|best| if has_capacity(&best) { Some(best) } else { ask(Some(&best)) });
            let Some(target) = target.filter(|target| has_capacity(target)) else { continue };
            if let Some(unit) = self.stamp(&job, DispatchTarget::of_errand(target.clone())) {
                *planned.entry(target).or_default() += 1;
                units.push(unit);
                offers.push(id);
            }
        }
        (units, offers)
    }

    fn stamp(&self, job: &Versioned<Arc<Job>>, target: DispatchTarget) -> Option<Commit> {
        let current = self.migrated((*job.value).clone()).ok()?;
        let id = job.value.id();
        match self.offered(current, target) {
            Ok(stamped) => Some(stamped.commit_at(Expected::At(job.revision), None)),
            Err(refusal) => {
                debug!(job.id = %id, %refusal, "Job {} can no longer be dispatched", job.value.label());
                None
            }
        }
    }

    /// A job with its next offer.
    pub(crate) fn offered(&self, job: Job, target: DispatchTarget) -> Result<Job, Refusal> {
        let now = self.now();
        let accept_by = now.after(self.settings.accept_within);
        let DispatchTarget { factory, score, decision } = target;
        let dispatch = Dispatch { seq: job.dispatch_seq().next(), target: factory, accept_by, score };
        job.decided_by(decision).apply(StageEvent::Dispatched { dispatch }, now, COORDINATOR)
    }

    /// Reads a job again after a lost race, so that memory catches up.
    pub(crate) async fn refresh(&self, id: JobId) {
        match self.read(id).await {
            Ok(job) => self.announce(std::iter::once(&job)),
            Err(error) => {
                warn!(job.id = %id, %error, "Could not read job {} again, the sweep retries", self.label(id));
                self.mark_suspect();
            }
        }
    }
}

/// The target of a dispatch, and the decision for it.
pub(crate) struct DispatchTarget {
    pub(crate) factory: FactoryId,
    pub(crate) score: f64,
    pub(crate) decision: serde_json::Map<String, serde_json::Value>,
}

impl DispatchTarget {
    /// The scheduler's choice, and the job that gave up its seat for it.
    pub(crate) fn of(placement: &Placement, preempted: Option<JobId>) -> Self {
        let mut decision = serde_json::Map::new();
        PlacementDecision::record(placement, &mut decision);
        if let Some(preempted) = preempted {
            decision.insert("preempted".to_owned(), json!(preempted));
        }
        Self { factory: placement.factory.clone(), score: placement.score.total, decision }
    }

    fn of_errand(factory: FactoryId) -> Self {
        Self { factory, score: 0.0, decision: serde_json::Map::new() }
    }
}

/// The broker's message: small; everything but the job and the number is only a hint.
pub(crate) fn message(job: &Job, dispatch: &Dispatch) -> Message {
    Message {
        job_id: job.id(),
        dispatch_seq: dispatch.seq,
        product_id: job.product().clone(),
        repo: job.spec().repo.clone(),
        caps: job.spec().capabilities.clone(),
        priority: job.priority(),
        target_factory_id: dispatch.target.clone(),
        shadow: false,
    }
}

//! Claim: a factory requests work, and the coordinator selects the jobs [D1][S3].
//!
//! A claim is a dispatch that its target accepts in the same write. The recorded events are the same in every mode, and
//! a job with an open dispatch cannot be claimed, because the state machine forbids a second dispatch.

mod claim_locks;
mod forecast;
pub(crate) mod pick;

use std::sync::Arc;

use domain::{
    Commit, CommitError, Dispatch, Expected, FactoryId, Job, Lease, ProductId, Refusal, ReservationKey, StageEvent,
    Versioned,
};
use fail::fail_point;
use protocol::{AcceptResponse, ClaimRequest, ClaimResponse, GrantedJob};
use tracing::{debug, info};

pub(crate) use claim_locks::ClaimLocks;

use crate::coordinator::{COORDINATOR, Coordinator};
use crate::dispatch::DispatchTarget;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::fleet::registry::millis;
use crate::state::leases::Process;
use crate::submit::invalid;
use pick::{ClaimSelection, Pick};

/// Retries of a claim that lost the race for every job; then other claims contend for the same jobs.
const ROUNDS_MAX: u32 = 3;

/// Products that one claim can name.
const PRODUCTS_MAX: usize = 1_000;

/// Jobs that one claim can name.
const JOBS_MAX: usize = 1_000;

impl Coordinator {
    /// Grants jobs to the factory: the first eligible ones in the order of service, as many as it has free seats for
    /// and requests. The same nonce returns the same answer, and never more (protocol 3).
    pub async fn claim(&self, who: &Principal, request: &ClaimRequest) -> Result<ClaimResponse, Error> {
        let factory = claimant(who, request)?;
        check(request)?;
        self.lead()?;
        let process = self.process(factory, request.instance)?;
        // One claim per factory at a time: a request sent twice finds the jobs it has won, not more.
        let lane = self.claim_locks.of(factory);
        let mut lane = lane.lock().await;
        let standing = self.granted_before(&process, request);
        if !standing.is_empty() {
            lane.won(request);
            self.count_claim_from_now(&process, &standing);
            return self.claimed(who, request, standing).await;
        }
        if lane.has_won(request) {
            return Err(Refusal::AlreadyGranted.into());
        }
        self.check_claimant(factory, request)?;
        self.note_connected(factory);
        for _ in 0..ROUNDS_MAX {
            if !self.state.lock().has_waiting_jobs() {
                break;
            }
            let granted = self.grant_some(who, &process, request).await?;
            match granted {
                Some(granted) if granted.is_empty() => {}
                Some(granted) => {
                    lane.won(request);
                    fail_point!("claim::committed");
                    return self.claimed(who, request, granted).await;
                }
                None => break,
            }
        }
        self.claimed(who, request, Vec::new()).await
    }

    /// Selects and grants jobs; `None` if there is none to select. Jobs that lost their race are left out.
    async fn grant_some(
        &self,
        who: &Principal,
        process: &Process,
        request: &ClaimRequest,
    ) -> Result<Option<Vec<Versioned<Arc<Job>>>>, Error> {
        // The dispatcher counts seats when it plans, and takes them after it has written.
        let _allocation = self.seat_allocation.read().await;
        let ClaimSelection { mut picks, held } = self.pick(who, process, request).await?;
        let reserved = self.reserve_picks(&mut picks).await?;
        if picks.is_empty() {
            return Ok(None);
        }
        fail_point!("claim::picked");
        let units: Vec<Commit> = picks.iter().filter_map(|pick| self.granting(who, process, request, pick)).collect();
        let ids: Vec<_> = units.iter().map(|unit| unit.job.id()).collect();
        let mut granted = Vec::with_capacity(units.len());
        for (id, outcome) in ids.into_iter().zip(self.commit_all(units).await) {
            match outcome {
                Ok(job) => granted.push(job),
                Err(CommitError::Stale | CommitError::Unknown) => {
                    self.refresh(id).await;
                    let found = self.state.lock().job(id);
                    granted.extend(found.filter(|job| is_answered(&job.value, process, request)));
                }
                // The other grants stand; a retry with the same nonce finds them.
                Err(CommitError::Store(error)) => return Err(error.into()),
            }
        }
        self.return_unused(reserved, &granted).await;
        drop(held);
        for pick in picks.iter().filter(|pick| granted.iter().any(|job| job.value.id() == pick.placement.job)) {
            self.note_dispatched(&pick.placement.factory, pick.waited);
            self.compare_claim(pick);
        }
        Ok(Some(granted))
    }

    /// Reserves the money of selected jobs; a job whose product waits for money is left out (row 17).
    async fn reserve_picks(&self, picks: &mut Vec<Pick>) -> Result<Vec<(ProductId, ReservationKey)>, Error> {
        let mut reserved = Vec::new();
        let mut affordable = Vec::with_capacity(picks.len());
        for pick in picks.drain(..) {
            let job = &pick.job.value;
            match self.reserve_money(job, job.dispatch_seq().next()).await {
                Ok(key) => {
                    reserved.extend(key.map(|key| (job.product().clone(), key)));
                    affordable.push(pick);
                }
                Err(Error::OutOfMoney(_)) => {}
                Err(error) => return Err(error),
            }
        }
        *picks = affordable;
        Ok(reserved)
    }

    /// Returns the money of grants that were not written. If one was written after all, the sweep restores it.
    async fn return_unused(&self, reserved: Vec<(ProductId, ReservationKey)>, granted: &[Versioned<Arc<Job>>]) {
        for (product, key) in reserved {
            if !granted.iter().any(|job| job.value.id() == key.job) {
                self.return_money(&product, key).await;
            }
        }
    }

    /// The commit that offers a job to the claiming factory and accepts the offer.
    fn granting(&self, who: &Principal, process: &Process, request: &ClaimRequest, pick: &Pick) -> Option<Commit> {
        let (now, job, factory) = (self.now(), &pick.job, &process.factory);
        let current = self.migrated((*job.value).clone()).ok()?;
        let seq = current.dispatch_seq().next();
        let DispatchTarget { score, decision, .. } = DispatchTarget::of(&pick.placement, pick.preempted);
        let dispatch = Dispatch { seq, target: factory.clone(), accept_by: now, score };
        let lease = Lease {
            factory: factory.clone(),
            instance: process.instance,
            epoch: current.epoch().next(),
            nonce: request.claim_nonce,
            seq,
            granted_at: now,
        };
        let offered = current.decided_by(decision).apply(StageEvent::Dispatched { dispatch }, now, COORDINATOR);
        match offered.and_then(|offered| offered.apply(StageEvent::Granted { lease }, now, who.actor())) {
            Ok(granted) => Some(granted.commit_at(Expected::At(job.revision), None)),
            Err(refusal) => {
                let id = job.value.id();
                debug!(job.id = %id, %refusal, "Job {} can no longer be claimed", job.value.label());
                None
            }
        }
    }

    /// Jobs that this claim has won and that its process still holds.
    fn granted_before(&self, process: &Process, request: &ClaimRequest) -> Vec<Versioned<Arc<Job>>> {
        let state = self.state.lock();
        let held = state.held_jobs(process).into_iter().filter_map(|id| state.job(id));
        held.filter(|job| is_answered(&job.value, process, request)).collect()
    }

    /// Extends the leases of a repeated answer from now, as the factory that repeated its request does (row 5).
    fn count_claim_from_now(&self, process: &Process, jobs: &[Versioned<Arc<Job>>]) {
        let expires = self.ports.clock.monotonic() + self.settings.lease_ttl;
        let mut state = self.state.lock();
        for job in jobs {
            state.renew_lease(job.value.id(), job.value.epoch(), process, expires);
        }
    }

    async fn claimed(
        &self,
        who: &Principal,
        request: &ClaimRequest,
        jobs: Vec<Versioned<Arc<Job>>>,
    ) -> Result<ClaimResponse, Error> {
        let mut granted = Vec::with_capacity(jobs.len());
        for job in jobs {
            let (id, epoch) = (job.value.id(), job.value.epoch());
            let Some(seq) = job.value.lease().map(|lease| lease.seq) else { continue };
            info!(job.id = %id, lease.epoch = %epoch, instance = %request.instance, "Granted job {} to `{}` by claim", job.value.label(), who.name);
            let assignment = self.assignment(&job.value).await?;
            let lease_ttl_ms = millis(self.settings.lease_ttl);
            granted.push(GrantedJob {
                dispatch_seq: seq,
                accepted: AcceptResponse { lease_ttl_ms, lease_epoch: epoch, assignment },
            });
        }
        Ok(ClaimResponse { granted, waiting: self.waiting_for(who), ..ClaimResponse::default() })
    }

    /// Jobs that wait for a seat, of the products in the caller's scope.
    fn waiting_for(&self, who: &Principal) -> u64 {
        self.state.lock().waiting_count(&who.products()) as u64
    }

    /// Checks that this process may claim: the newest of its factory, and not draining (row 6).
    fn check_claimant(&self, factory: &FactoryId, request: &ClaimRequest) -> Result<(), Error> {
        let known = self.factory(factory)?;
        if known.value.instance != request.instance {
            return Err(Refusal::NotHolder { factory: factory.clone() }.into());
        }
        if known.value.draining {
            return Err(Error::NotReady(format!("factory `{factory}` is draining")));
        }
        Ok(())
    }
}

/// The claiming factory, from the token.
fn claimant<'p>(who: &'p Principal, request: &ClaimRequest) -> Result<&'p FactoryId, Error> {
    let factory = who.factory()?;
    match &request.factory_id {
        Some(given) if given != factory => Err(Error::Forbidden(format!("the token is factory `{factory}`'s"))),
        Some(_) | None => Ok(factory),
    }
}

/// Whether this claim holds a job.
fn is_answered(job: &Job, process: &Process, request: &ClaimRequest) -> bool {
    job.seat().is_some_and(|lease| {
        let is_its = lease.factory == process.factory && lease.instance == process.instance;
        is_its && lease.nonce == request.claim_nonce
    })
}

/// Checks that the lists of a claim are short enough to compare with every waiting product.
fn check(request: &ClaimRequest) -> Result<(), Error> {
    let lists =
        [("products", request.products.as_deref().unwrap_or_default()), ("exceptProducts", &request.except_products)];
    for (what, list) in lists {
        if list.len() > PRODUCTS_MAX {
            return Err(invalid(what, format!("{PRODUCTS_MAX} at most, found {}", list.len())));
        }
    }
    if let Some(jobs) = request.jobs.as_ref().filter(|jobs| jobs.len() > JOBS_MAX) {
        return Err(invalid("jobs", format!("{JOBS_MAX} at most, found {}", jobs.len())));
    }
    Ok(())
}

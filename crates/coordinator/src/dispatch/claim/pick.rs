//! Selects the jobs of a claim: the scheduler's choice, with every precondition checked again [I6].

use std::sync::Arc;
use std::time::Duration;

use domain::{FactoryId, Job, JobId, ProductId, Versioned};
use protocol::ClaimRequest;
use scheduler::{Placement, WeighedClaim};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::state::FleetState;
use crate::state::leases::Process;
use crate::submit::deps::DepsVerdict;

/// Jobs that a claim sets aside. More at the head of a queue means that an operator re-opened a dependency of all of
/// them; the next claim gets further.
const SET_ASIDE_MAX: usize = 32;

/// Jobs of one claim: as many as one batch of operations has.
const LIMIT_MAX: u32 = 1_000;

/// One job that a claim selected.
pub(crate) struct Pick {
    pub(crate) job: Versioned<Arc<Job>>,
    pub(crate) placement: Placement,
    /// How long it has waited.
    pub(super) waited: Duration,
    /// The job that gave up its seat for it.
    pub(super) preempted: Option<JobId>,
    /// What the plan would have done with it, if its product is compared.
    pub(crate) weighed: Option<WeighedClaim>,
}

/// Jobs that a claim selected, with the seats reserved for them.
pub(super) struct ClaimSelection<'a> {
    pub(super) picks: Vec<Pick>,
    pub(super) held: ClaimReservation<'a>,
}

/// Jobs out of the queue and seats reserved, for a claim that is being written. When it is dropped, the leases
/// themselves count, or everything is returned.
pub(super) struct ClaimReservation<'a> {
    coordinator: &'a Coordinator,
    process: Process,
    jobs: Vec<JobId>,
    /// Jobs with a reserved seat.
    seated: Vec<JobId>,
}

impl ClaimReservation<'_> {
    /// Sets aside a job that cannot be granted yet: its seat is free again, and it leaves the queue.
    fn park(&mut self, id: JobId) {
        let until = self.coordinator.steady().after(self.coordinator.settings.sweep_every);
        let mut state = self.coordinator.state.lock();
        state.end_grant(id, &self.process);
        state.park(id, until);
        self.seated.retain(|seated| *seated != id);
        self.jobs.retain(|held| *held != id);
        self.coordinator.timer.notify_one();
    }
}

impl Drop for ClaimReservation<'_> {
    fn drop(&mut self) {
        let now = self.coordinator.steady();
        let mut is_back = false;
        {
            let mut state = self.coordinator.state.lock();
            for id in &self.seated {
                state.end_grant(*id, &self.process);
            }
            for id in &self.jobs {
                is_back |= state.let_go(*id, now);
            }
        }
        if is_back {
            // A concurrent plan may have missed the jobs that were returned.
            self.coordinator.work.notify_one();
        }
    }
}

impl Coordinator {
    /// Takes the jobs that a factory should get next out of the queue.
    pub(super) async fn pick<'a>(
        &'a self,
        who: &Principal,
        process: &Process,
        request: &ClaimRequest,
    ) -> Result<ClaimSelection<'a>, Error> {
        let held =
            ClaimReservation { coordinator: self, process: process.clone(), jobs: Vec::new(), seated: Vec::new() };
        let mut picked = ClaimSelection { picks: Vec::new(), held };
        let limit = limit_of(request);
        let mut set_aside = 0;
        let mut named = request.jobs.as_deref().map(|jobs| jobs.iter().copied());
        while picked.picks.len() < limit && set_aside < SET_ASIDE_MAX {
            let pick = match &mut named {
                None => self.reserve_next(who, request, None, &mut picked.held),
                Some(jobs) => jobs.find_map(|job| self.reserve_next(who, request, Some(job), &mut picked.held)),
            };
            let Some(pick) = pick else { break };
            if self.unmet(&pick.job.value).await?.is_none() {
                picked.picks.push(pick);
            } else {
                set_aside += 1;
                picked.held.park(pick.placement.job);
            }
        }
        Ok(picked)
    }

    fn reserve_next(
        &self,
        who: &Principal,
        request: &ClaimRequest,
        named: Option<JobId>,
        held: &mut ClaimReservation<'_>,
    ) -> Option<Pick> {
        let factory = &held.process.factory;
        let mut state = self.state.lock();
        let is_asked = |product: &ProductId| request.asks_for(product) && who.sees(product);
        let pick = self.next_pick(&mut state, factory, named, is_asked)?;
        held.jobs.push(pick.placement.job);
        // The scheduler counts offers and leases; this also counts accepts that are being written.
        if !state.begin_grant(pick.placement.job, &held.process) {
            return None;
        }
        held.seated.push(pick.placement.job);
        Some(pick)
    }

    /// The scheduler's next choice for a factory, or the named job if the factory may have it, held.
    pub(super) fn next_pick(
        &self,
        state: &mut FleetState,
        factory: &FactoryId,
        named: Option<JobId>,
        is_asked: impl Fn(&ProductId) -> bool,
    ) -> Option<Pick> {
        let now = self.steady();
        let view = state.view(now, &self.settings.weights, 1);
        let placement = match named {
            None => scheduler::claim(&view, factory, is_asked)?,
            Some(job) => scheduler::claim_named(&view, factory, job, is_asked)?,
        };
        let waited = state.waiting_since(placement.job).map_or(Duration::ZERO, |since| now.since(since));
        let preempted = state.preempted_for(placement.job, factory);
        let weighed = self.weigh_claim(state, &placement);
        let job = state.hold(&placement)?;
        Some(Pick { job, placement, waited, preempted, weighed })
    }

    /// The unmet dependency of a queued job: an operator re-opened it since the job was queued.
    pub(super) async fn unmet(&self, job: &Job) -> Result<Option<String>, Error> {
        Ok(match self.check_deps(job).await? {
            DepsVerdict::Met => None,
            DepsVerdict::Unmet(deps) => Some(match deps.first() {
                Some(dep) => format!("dependency `{dep}` is not met"),
                None => "its dependencies are not met".to_owned(),
            }),
            DepsVerdict::Failed(dep) => Some(format!("dependency `{dep}` failed")),
        })
    }
}

/// The maximum number of jobs; the scheduler stops at the last free seat.
pub(super) fn limit_of(request: &ClaimRequest) -> usize {
    request.limit.unwrap_or(1).clamp(1, LIMIT_MAX) as usize
}

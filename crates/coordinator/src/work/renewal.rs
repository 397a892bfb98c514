//! Lease renewal, and the reaper of expired leases [§6.4].

use domain::{Epoch, Factory, FactoryId, InstanceId, JobId, Refusal, StageEvent};
use fail::fail_point;
use foldhash::HashSet;
use protocol::{Directive, HeldJob, HeldJobProgress, LeaseView, Progress, RenewRequest, RenewResponse};
use tracing::warn;

use crate::commit::{AmendOutcome, Decision};
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::fleet::registry::{check_load, millis};
use crate::state::FleetState;
use crate::state::leases::{Process, Renewal};
use crate::state::progress::check_progress;
use crate::submit::invalid;

/// Jobs that one renewal can list: each one not in memory is read from the store.
const HELD_MAX: usize = 10_000;

impl Coordinator {
    /// Renews all leases of one process, in one call that writes nothing.
    pub async fn renew(&self, who: &Principal, id: &FactoryId, request: &RenewRequest) -> Result<RenewResponse, Error> {
        if who.factory()? != id {
            return Err(Error::Forbidden(format!("a token of factory `{id}` is needed")));
        }
        self.lead()?;
        let process = self.process(id, request.instance)?;
        check(request)?;
        let listed: HashSet<_> = request.held.iter().map(|one| (one.held.job_id, one.held.lease_epoch)).collect();
        let expires = self.ports.clock.monotonic() + self.settings.lease_ttl;
        let (mut lost, mut unknown, mut is_spending) = (Vec::new(), Vec::new(), false);
        let (abandoned, is_current, mut directives) = {
            let mut state = self.state.lock();
            for HeldJobProgress { held, progress } in &request.held {
                match state.renew_lease(held.job_id, held.lease_epoch, &process, expires) {
                    Renewal::Renewed => {
                        self.publish_progress(&state, *held, progress.as_ref());
                        is_spending |= state.is_spending(held.job_id);
                    }
                    Renewal::TooLate => lost.push(*held),
                    Renewal::Unknown => unknown.push(*held),
                }
            }
            let abandoned = state.count_omitted(&process, &listed);
            let known = state.factory(id).map(|factory| &factory.value);
            let is_current = known.is_some_and(|factory| factory.instance == request.instance);
            let draining = known.is_some_and(|factory| factory.draining).then_some(Directive::Drain);
            let leave = state.is_retiring(id).then_some(Directive::Leave);
            let directives = draining.into_iter().chain(leave).chain(state.preemption_directives(id));
            let directives: Vec<_> = directives.collect();
            (abandoned, is_current, directives)
        };
        if is_spending {
            self.weigh_money();
        }
        if is_current {
            // A superseded process sends no heartbeat for its factory.
            self.note_heartbeat(who, id, request.load, request.disk_free_bytes, self.now());
        }
        for (job, epoch) in abandoned {
            warn!(job.id = %job, factory.id = %id, "Factory `{id}` no longer lists job {}, requeueing it", self.label(job));
            self.reap(job, epoch).await;
        }
        lost.extend(self.confirm_lost(who, &process, unknown).await);
        directives.retain(|directive| !is_lost(directive, &lost));
        let modes = self.modes.now().value.limited_to(&who.products()).for_factories();
        Ok(RenewResponse { lease_ttl_ms: millis(self.settings.lease_ttl), lost, directives, modes })
    }

    /// Renews one lease, for a holder that keeps no list.
    pub async fn renew_lease(&self, who: &Principal, held: HeldJob, instance: InstanceId) -> Result<LeaseView, Error> {
        self.lead()?;
        let job = self.workable(who, held.job_id).await?;
        let process = self.process(who.factory()?, instance)?;
        let expires = self.ports.clock.monotonic() + self.settings.lease_ttl;
        let renewal = self.state.lock().renew_lease(held.job_id, held.lease_epoch, &process, expires);
        if renewal != Renewal::Renewed {
            return Err(Refusal::StaleEpoch { shown: held.lease_epoch, held: job.value.epoch() }.into());
        }
        self.lease(who, held.job_id).await
    }

    /// Publishes the progress of a holder's agent. Under the lock of the state, so that it never outlives the lease.
    fn publish_progress(&self, state: &FleetState, held: HeldJob, progress: Option<&Progress>) {
        let product = || state.job(held.job_id).map(|job| job.value.product().clone());
        if let (Some(progress), Some(product)) = (progress, product()) {
            self.progress.publish_progress(held.job_id, held.lease_epoch, product, progress);
        }
    }

    /// A lease not in memory may be one whose grant is being committed right now: the store decides.
    async fn confirm_lost(&self, who: &Principal, process: &Process, suspected: Vec<HeldJob>) -> Vec<HeldJob> {
        let mut lost = Vec::new();
        for held in suspected {
            let is_held = match self.read(held.job_id).await {
                Ok(job) if !who.sees(job.value.product()) => false,
                Ok(job) => {
                    self.announce(std::iter::once(&job));
                    job.value.lease().is_some_and(|lease| {
                        let is_its = lease.factory == process.factory && lease.instance == process.instance;
                        is_its && lease.epoch == held.lease_epoch
                    })
                }
                Err(Error::NoSuchJob(_)) => false,
                Err(_) => true,
            };
            if !is_held {
                lost.push(held);
            }
        }
        lost
    }

    /// Reaps one lease, if it is still the one that expired: one conditional write (rows 7, 8 and 30).
    pub(crate) async fn reap(&self, id: JobId, epoch: Epoch) {
        self.state.lock().doom_lease(id, epoch);
        fail_point!("reap::before_commit", |_| {});
        let reaped = self
            .try_amend(id, |job| {
                if job.epoch() != epoch || job.seat().is_none() {
                    return Ok(Decision::Keep);
                }
                let verdict = self.settings.retry.after_lost_lease(job.lost_leases());
                let job = self.with_usage(job);
                job.apply(StageEvent::Reaped { epoch, verdict }, self.now(), COORDINATOR).map(Decision::Write)
            })
            .await;
        match reaped {
            Ok(AmendOutcome::Written(job)) => {
                let stage = job.value.stage().name();
                if let Some(factory) = job.value.avoid() {
                    self.counters.failed(factory, true);
                    self.inboxes.direct(factory, Directive::Cancel { job_id: id, lease_epoch: epoch });
                }
                let holder = job.value.avoid().map_or_else(String::new, |factory| format!(" from `{factory}`"));
                warn!(job.id = %id, lease.epoch = %epoch, job.stage = %stage, "Lease of job {} expired: no heartbeat{holder}, now {stage}", job.value.label());
                self.after_report(&job.value).await;
            }
            Ok(AmendOutcome::Kept(_)) => {}
            Err(error) => {
                warn!(job.id = %id, %error, "Could not requeue job {}, the sweep retries", self.label(id));
            }
        }
    }

    /// Only the newest process of a factory holds leases: those of older ones are revoked (row 6).
    pub(crate) async fn revoke_others(&self, factory: &Factory) {
        self.inboxes.close_others(&factory.id, factory.instance);
        let current = Process { factory: factory.id.clone(), instance: factory.instance };
        let others = self.state.lock().superseded_leases(&current);
        for (job, epoch) in others {
            self.reap(job, epoch).await;
        }
    }
}

/// Whether a directive is about a lease that is lost: the factory stops that run at once.
fn is_lost(directive: &Directive, lost: &[HeldJob]) -> bool {
    match directive {
        Directive::Preempt { job_id, lease_epoch } => {
            lost.iter().any(|held| held.job_id == *job_id && held.lease_epoch == *lease_epoch)
        }
        _ => false,
    }
}

/// Checks that everything in a renewal is within bounds. Otherwise nothing is renewed.
fn check(request: &RenewRequest) -> Result<(), Error> {
    if request.held.len() > HELD_MAX {
        return Err(invalid("held", format!("{HELD_MAX} at most, found {}", request.held.len())));
    }
    check_load(request.load)?;
    request.held.iter().filter_map(|one| one.progress.as_ref()).try_for_each(check_progress)
}

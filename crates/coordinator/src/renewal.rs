//! Renewal, and taking back what nobody renewed [§6.4].

use domain::{Epoch, Factory, FactoryId, InstanceId, JobId, Refusal, StageEvent};
use fail::fail_point;
use protocol::{Directive, Held, Holding, LeaseView, Progress, Renew, Renewed};
use tracing::{info, warn};

use crate::commit::{Amended, Decision};
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::desk::Desk;
use crate::error::Error;
use crate::leases::Renewal;
use crate::principal::Principal;
use crate::registry::millis;

impl Coordinator {
    /// Renews everything that one process holds, in one call that writes nothing.
    pub async fn renew(&self, who: &Principal, id: &FactoryId, request: &Renew) -> Result<Renewed, Error> {
        if who.factory()? != id {
            return Err(Error::Forbidden(format!("a token of factory `{id}` is needed")));
        }
        let listed: Vec<_> = request.held.iter().map(|one| (one.held.job_id, one.held.lease_epoch)).collect();
        let expires = self.ports.clock.monotonic() + self.settings.lease_ttl;
        let (mut lost, mut unknown) = (Vec::new(), Vec::new());
        let (abandoned, is_current, draining) = {
            let mut desk = self.desk.lock();
            for Holding { held, progress } in &request.held {
                match desk.leases.renew(held.job_id, held.lease_epoch, request.instance, expires) {
                    Renewal::Renewed => self.put_up(&desk, *held, progress.as_ref()),
                    Renewal::TooLate => lost.push(*held),
                    Renewal::Unknown => unknown.push(*held),
                }
            }
            let abandoned = desk.leases.count_missing(request.instance, &listed);
            let known = desk.factories.get(id).map(|factory| &factory.value);
            let is_current = known.is_some_and(|factory| factory.instance == request.instance);
            (abandoned, is_current, known.is_some_and(|factory| factory.draining))
        };
        if is_current {
            // A process that was superseded is no sign of life of its factory.
            self.heard(who, id, request.load, request.disk_free_bytes, self.now());
        }
        for (job, epoch) in abandoned {
            warn!(job.id = %job, factory.id = %id, "Factory `{id}` no longer lists job `{job}`, taking it back");
            self.reap(job, epoch).await;
        }
        lost.extend(self.really_lost(id, request.instance, unknown).await);
        let directives = if draining { vec![Directive::Drain] } else { Vec::new() };
        let modes = self.modes.now().value.limited_to(&who.products());
        Ok(Renewed { lease_ttl_ms: millis(self.settings.lease_ttl), lost, directives, modes })
    }

    /// Renews one lease, for a holder that keeps no list.
    pub async fn renew_lease(&self, who: &Principal, held: Held, instance: InstanceId) -> Result<LeaseView, Error> {
        let factory = who.factory()?;
        let expires = self.ports.clock.monotonic() + self.settings.lease_ttl;
        let is_renewed = {
            let mut desk = self.desk.lock();
            let is_its = desk.leases.of_factory(factory).contains(&(held.job_id, held.lease_epoch));
            is_its && desk.leases.renew(held.job_id, held.lease_epoch, instance, expires) == Renewal::Renewed
        };
        if !is_renewed {
            let job = self.read(held.job_id).await?;
            return Err(Refusal::StaleEpoch { shown: held.lease_epoch, held: job.value.epoch() }.into());
        }
        self.lease(who, held.job_id).await
    }

    /// Shows what a holder's agent is doing. Under the desk's lock, so that it never outlives the lease.
    fn put_up(&self, desk: &Desk, held: Held, progress: Option<&Progress>) {
        let product = || desk.job(held.job_id).map(|job| job.value.product().clone());
        if let (Some(progress), Some(product)) = (progress, product()) {
            self.progress.put_up(held.job_id, held.lease_epoch, product, progress);
        }
    }

    /// A lease that memory does not know may be one whose grant is being committed right now: the store decides.
    async fn really_lost(&self, factory: &FactoryId, instance: InstanceId, suspected: Vec<Held>) -> Vec<Held> {
        let mut lost = Vec::new();
        for held in suspected {
            let is_held = match self.read(held.job_id).await {
                Ok(job) => {
                    self.announce(std::iter::once(&job));
                    job.value.lease().is_some_and(|lease| {
                        lease.epoch == held.lease_epoch && lease.factory == *factory && lease.instance == instance
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
        self.desk.lock().leases.doom(id, epoch);
        fail_point!("reap::before_commit", |_| {});
        let reaped = self
            .try_amend(id, |job| {
                if job.epoch() != epoch || job.seat().is_none() {
                    return Ok(Decision::Keep);
                }
                let verdict = self.settings.retry.after_lost_lease(job.lost_leases());
                let job = self.with_figures(job);
                job.apply(StageEvent::Reaped { epoch, verdict }, self.now(), COORDINATOR).map(Decision::Write)
            })
            .await;
        match reaped {
            Ok(Amended::Written(job)) => {
                let stage = job.value.stage().name();
                if let Some(factory) = job.value.avoid() {
                    self.counters.failed(factory, true);
                    self.inboxes.direct(factory, Directive::Cancel { job_id: id, lease_epoch: epoch });
                }
                info!(job.id = %id, lease.epoch = %epoch, job.stage = %stage, "Took job `{id}` back from a silent holder");
                self.after_report(&job.value).await;
            }
            Ok(Amended::Kept(_)) => {}
            Err(error) => {
                warn!(job.id = %id, %error, "Could not take job `{id}` back, the sweep will try again");
            }
        }
    }

    /// The newest process of a factory is the factory: whatever an older one holds goes back (row 6).
    pub(crate) async fn revoke_others(&self, factory: &Factory) {
        self.inboxes.close_others(&factory.id, factory.instance);
        let others = self.desk.lock().leases.of_others(&factory.id, factory.instance);
        for (job, epoch) in others {
            self.reap(job, epoch).await;
        }
    }
}

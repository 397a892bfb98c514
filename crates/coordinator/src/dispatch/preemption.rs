//! Preemption: a critical job without a seat gets the one of a preemptible job [S5].
//!
//! The request is stored with the running job and names the critical one, so a coordinator that restarts continues
//! where the last one stopped. The holder is asked first; at the deadline the lease is revoked by a write that is
//! conditional on its epoch, so a completion that comes first wins (row 15).

use domain::{JobId, Preemption, Priority, StageEvent};
use fail::fail_point;
use protocol::Directive;
use scheduler::Eviction;
use tracing::{info, warn};

use crate::commit::{AmendOutcome, Decision};
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::error::Error;
use crate::state::preemptions::directive;

impl Coordinator {
    /// Asks running jobs for the seats of critical jobs that no free seat fits. Idempotent: a job with a request gets
    /// no second one. The dispatcher calls it whenever nothing more can be placed, also after every sweep.
    pub(crate) async fn request_preemptions(&self) {
        if !self.preempts() || self.is_warming() {
            return;
        }
        let evictions = self.state.lock().evictions(self.steady(), &self.settings.weights);
        for eviction in evictions {
            if let Err(error) = self.request_preemption(&eviction).await {
                let victim = eviction.victim;
                warn!(job.id = %victim, %error, "Could not ask for the seat of job {}, the sweep retries", self.label(victim));
                self.mark_suspect();
            }
        }
    }

    async fn request_preemption(&self, eviction: &Eviction) -> Result<(), Error> {
        let Eviction { victim, for_job, factory, .. } = eviction;
        let until = self.now().after(self.settings.preemption_grace);
        // Long enough for an offer that is lost once, and for a factory that polls.
        let keep_until = until.after(self.settings.accept_within * 2 + self.settings.renew_every);
        fail_point!("preemption::before_request");
        let amended = self
            .try_amend(*victim, |job| {
                let Some(lease) = job.seat().filter(|lease| lease.factory == *factory) else {
                    return Ok(Decision::Keep);
                };
                let is_critical = job.priority() == Priority::Critical;
                if is_critical || !job.spec().preemptible || job.pending_preemption().is_some() {
                    return Ok(Decision::Keep);
                }
                let preemption = Preemption {
                    for_job: *for_job,
                    factory: factory.clone(),
                    engine: eviction.engine.clone(),
                    epoch: lease.epoch,
                    until,
                    keep_until,
                };
                job.apply(StageEvent::PreemptionRequested { preemption }, self.now(), COORDINATOR).map(Decision::Write)
            })
            .await?;
        fail_point!("preemption::requested");
        if let AmendOutcome::Written(job) = amended
            && let Some(preemption) = job.value.pending_preemption()
        {
            info!(job.id = %victim, for_job.id = %for_job, factory.id = %factory, "Asked factory `{factory}` to release the seat of job {} for critical job {}", job.value.label(), self.label(*for_job));
            self.inboxes.direct(factory, directive(*victim, preemption));
        }
        Ok(())
    }

    /// The holder did not give up its seat in time: revokes the lease, if it is still the one that was asked and the
    /// critical job still waits.
    pub(crate) async fn preempt(&self, id: JobId, preemption: &Preemption) -> Result<(), Error> {
        let needs_seat = {
            let mut state = self.state.lock();
            let needs_seat = state.needs_seat(preemption.for_job);
            if !needs_seat {
                state.drop_deadline(id);
            }
            needs_seat
        };
        if !needs_seat {
            return Ok(());
        }
        self.revoke_preempted(id, preemption).await
    }

    async fn revoke_preempted(&self, id: JobId, preemption: &Preemption) -> Result<(), Error> {
        let epoch = preemption.epoch;
        self.state.lock().doom_lease(id, epoch);
        fail_point!("preemption::before_revoke");
        let amended = self
            .try_amend(id, |job| {
                if job.pending_preemption().is_none_or(|pending| pending.epoch != epoch) {
                    return Ok(Decision::Keep);
                }
                let job = self.with_usage(job);
                job.apply(StageEvent::Preempted { epoch }, self.now(), COORDINATOR).map(Decision::Write)
            })
            .await?;
        if let AmendOutcome::Written(job) = amended {
            let factory = &preemption.factory;
            warn!(job.id = %id, lease.epoch = %epoch, factory.id = %factory, "Factory `{factory}` did not release job {} in time: lease revoked for critical job {}", job.value.label(), preemption.for_job.short());
            self.inboxes.direct(factory, Directive::Cancel { job_id: id, lease_epoch: epoch });
        }
        Ok(())
    }

    /// Seats that no critical job took in time are free for all jobs again.
    pub(crate) fn release_kept_seats(&self) {
        let is_released = self.state.lock().release_kept_seats(self.steady());
        if is_released {
            self.work.notify_one();
        }
    }
}

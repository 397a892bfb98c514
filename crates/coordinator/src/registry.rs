//! Factories: joining, signs of life, renewal, leaving.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::{
    Capability, Collection, CommitError, Expected, Factory, FactoryId, InstanceId, JobId, ProductId, Refusal,
    StageEvent, Timestamp, Versioned,
};
use fail::fail_point;
use protocol::{Directive, Drain, Heartbeat, HeartbeatAnswer, Held, LeaseView, Pruned, Renew, Renewed};
use scheduler::FactoryState;
use tracing::{info, warn};

use crate::commit::Decision;
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::error::Error;
use crate::principal::Principal;
use crate::submit::invalid;

/// A machine with more seats than this is a typing mistake.
const SEATS_MAX: u32 = 10_000;

/// A factory that offers more tokens than this is not describing itself.
const CAPABILITIES_MAX: usize = 1_000;

/// How lively a factory is: in memory only [I14].
#[derive(Debug, Clone)]
pub(crate) struct Pulse {
    pub(crate) last: Timestamp,
    pub(crate) heard: Duration,
    pub(crate) load: f64,
    pub(crate) disk_free_bytes: Option<u64>,
    pub(crate) products: BTreeSet<ProductId>,
}

impl Coordinator {
    /// A sign of life with what the factory is. Written down only when that changed.
    pub async fn heartbeat(&self, who: &Principal, beat: Heartbeat) -> Result<HeartbeatAnswer, Error> {
        let id = who.factory()?.clone();
        check(&beat)?;
        let known = self.desk.lock().factories.get(&id).cloned();
        if known.as_ref().is_some_and(|known| self.is_superseded(&known.value, beat.instance)) {
            return Ok(self.heartbeat_answer(id, true, false));
        }
        let (load, disk) = (beat.load, beat.disk_free_bytes);
        let now = self.now();
        let factory = self.described(&id, who, beat, known.as_ref().map(|known| &known.value));
        let is_new_process = known.as_ref().is_none_or(|known| known.value.instance != factory.instance);
        let draining = factory.draining;
        self.register(factory.clone(), known).await?;
        self.heard(who, &id, load, disk, now);
        if is_new_process {
            info!(factory.id = %id, "Factory `{id}` registered with {} seats", factory.seat_limit);
            self.revoke_others(&factory).await;
        }
        Ok(self.heartbeat_answer(id, false, draining))
    }

    /// Whether a process is an older one than the process that stands for its factory. Ids grow with the machine's
    /// clock, which may have been set back, so an older id only counts while the newer process is alive.
    fn is_superseded(&self, known: &Factory, instance: InstanceId) -> bool {
        let desk = self.desk.lock();
        let is_alive = self.presence(desk.pulses.get(&known.id)) == scheduler::Presence::Live;
        instance < known.instance && is_alive
    }

    /// Renews everything that one process holds, in one call that writes nothing.
    pub async fn renew(&self, who: &Principal, id: &FactoryId, request: &Renew) -> Result<Renewed, Error> {
        if who.factory()? != id {
            return Err(Error::Forbidden(format!("a token of factory `{id}` is needed")));
        }
        let listed: Vec<_> = request.held.iter().map(|held| (held.job_id, held.lease_epoch)).collect();
        let expires = self.ports.clock.monotonic() + self.settings.lease_ttl;
        self.heard(who, id, request.load, request.disk_free_bytes, self.now());
        let (lost, abandoned, draining) = {
            let mut desk = self.desk.lock();
            let is_unknown =
                |held: &&Held| !desk.leases.renew(held.job_id, held.lease_epoch, request.instance, expires);
            let lost: Vec<Held> = request.held.iter().filter(is_unknown).copied().collect();
            let abandoned = desk.leases.count_missing(request.instance, &listed);
            let draining = desk.factories.get(id).is_some_and(|factory| factory.value.draining);
            (lost, abandoned, draining)
        };
        for (job, epoch) in abandoned {
            warn!(job.id = %job, factory.id = %id, "Factory `{id}` no longer lists job `{job}`, taking it back");
            self.reap(job, epoch).await;
        }
        let directives = if draining { vec![Directive::Drain] } else { Vec::new() };
        Ok(Renewed { lease_ttl_ms: millis(self.settings.lease_ttl), lost: self.really_lost(lost).await, directives })
    }

    /// Renews one lease, for a holder that keeps no list.
    pub async fn renew_lease(&self, who: &Principal, held: Held, instance: InstanceId) -> Result<LeaseView, Error> {
        let factory = who.factory()?;
        let expires = self.ports.clock.monotonic() + self.settings.lease_ttl;
        let is_renewed = {
            let mut desk = self.desk.lock();
            let is_its = desk.leases.of_factory(factory).contains(&(held.job_id, held.lease_epoch));
            is_its && desk.leases.renew(held.job_id, held.lease_epoch, instance, expires)
        };
        if !is_renewed {
            let job = self.read(held.job_id).await?;
            return Err(Refusal::StaleEpoch { shown: held.lease_epoch, held: job.value.epoch() }.into());
        }
        self.lease(who, held.job_id).await
    }

    /// A lease that memory does not know may be one whose grant is being committed right now: the store decides.
    async fn really_lost(&self, suspected: Vec<Held>) -> Vec<Held> {
        let mut lost = Vec::new();
        for held in suspected {
            let is_held = match self.read(held.job_id).await {
                Ok(job) => job.value.lease().is_some_and(|lease| lease.epoch == held.lease_epoch),
                Err(Error::NoSuchJob(_)) => false,
                Err(_) => true,
            };
            if !is_held {
                lost.push(held);
            }
        }
        lost
    }

    /// Takes a factory out of service, or back in.
    pub async fn drain(&self, who: &Principal, id: &FactoryId, request: &Drain) -> Result<(), Error> {
        who.factory_or_admin(id)?;
        let known = self.factory(id)?;
        let factory = Factory { draining: request.draining, ..known.value.clone() };
        self.register(factory, Some(known)).await?;
        let directive = if request.draining { Directive::Drain } else { Directive::Resume };
        self.inboxes.direct(id, directive);
        info!(factory.id = %id, draining = request.draining, "Factory `{id}` was told to {}", if request.draining { "drain" } else { "resume" });
        self.work.notify_one();
        Ok(())
    }

    /// Forgets a factory and its tokens. What it holds goes back to the queue.
    pub async fn deregister(&self, who: &Principal, id: &FactoryId) -> Result<(), Error> {
        who.administer()?;
        let known = self.factory(id)?;
        self.revoke_factory_tokens(id).await?;
        let removed =
            self.ports.fleet.put(Collection::Factories, id.as_str(), Expected::At(known.revision), None).await;
        settle_put(removed)?;
        let held = {
            let mut desk = self.desk.lock();
            desk.factories.remove(id);
            desk.pulses.remove(id);
            desk.fleet.remove(id);
            desk.leases.of_factory(id)
        };
        self.inboxes.close(id);
        for (job, epoch) in held {
            self.reap(job, epoch).await;
        }
        info!(factory.id = %id, by = %who.name, "Factory `{id}` was deregistered");
        Ok(())
    }

    /// Forgets every factory that has been silent for long and holds nothing [T7].
    pub async fn prune(&self, who: &Principal) -> Result<Pruned, Error> {
        who.administer()?;
        let now = self.ports.clock.monotonic();
        let silent: Vec<FactoryId> = {
            let desk = self.desk.lock();
            let is_silent = |id: &&FactoryId| {
                let heard = desk.pulses.get(*id).map(|pulse| pulse.heard);
                heard.is_none_or(|heard| now.saturating_sub(heard) > self.settings.stale_after)
                    && desk.leases.of_factory(id).is_empty()
            };
            desk.factories.keys().filter(is_silent).cloned().collect()
        };
        if self.is_warming() {
            return Err(Error::NotNow(
                "the coordinator has just started and has not heard of everybody yet".to_owned(),
            ));
        }
        for id in &silent {
            self.deregister(who, id).await?;
        }
        Ok(Pruned { factories: silent })
    }

    /// Reaps one lease, if it is still the one that expired: one conditional write (rows 7, 8 and 30).
    pub(crate) async fn reap(&self, id: JobId, epoch: domain::Epoch) {
        fail_point!("reap::before_commit", |_| {});
        let reaped = self
            .amend(id, |job| {
                if job.epoch() != epoch || job.seat().is_none() {
                    return Ok(Decision::Keep);
                }
                let verdict = self.settings.retry.after_lost_lease(job.lost_leases());
                job.apply(StageEvent::Reaped { epoch, verdict }, self.now(), COORDINATOR).map(Decision::Write)
            })
            .await;
        match reaped {
            Ok(job) => {
                let stage = job.value.stage().name();
                if let Some(factory) = job.value.avoid() {
                    self.counters.failed(factory, true);
                    self.inboxes.direct(factory, Directive::Cancel { job_id: id, lease_epoch: epoch });
                }
                info!(job.id = %id, lease.epoch = %epoch, job.stage = %stage, "Took job `{id}` back from a silent holder");
                self.after_report(&job.value).await;
            }
            Err(error) => {
                warn!(job.id = %id, %error, "Could not take job `{id}` back, the sweep will try again");
            }
        }
    }

    /// The newest process of a factory is the factory: whatever an older one holds goes back (row 6).
    async fn revoke_others(&self, factory: &Factory) {
        let others = self.desk.lock().leases.of_others(&factory.id, factory.instance);
        for (job, epoch) in others {
            self.reap(job, epoch).await;
        }
    }

    /// What the factory is, with what its token allows it to offer.
    fn described(&self, id: &FactoryId, who: &Principal, beat: Heartbeat, known: Option<&Factory>) -> Factory {
        let allowed = who.capabilities();
        let offered = beat.capabilities.into_iter().map(Capability::canonical);
        let mut capabilities: BTreeSet<_> =
            offered.filter(|token| allowed.is_empty() || allowed.contains(token)).collect();
        capabilities.extend(beat.repos.iter().map(Capability::repo));
        Factory {
            id: id.clone(),
            instance: beat.instance,
            capabilities,
            repos: beat.repos,
            clones: beat.clones,
            seat_limit: beat.seat_limit,
            engine_seats: beat.engine_seats,
            repo_seats: beat.repo_seats,
            cost: beat.cost.min(100),
            draining: known.is_some_and(|known| known.draining),
            version: beat.version,
            joined_at: known.map_or_else(|| self.now(), |known| known.joined_at),
        }
    }

    /// Writes down what a factory is, if that is not what is written.
    async fn register(&self, factory: Factory, known: Option<Versioned<Factory>>) -> Result<(), Error> {
        let revision = match &known {
            Some(known) if known.value == factory => known.revision,
            _ => {
                let expected = known.as_ref().map_or(Expected::Absent, |known| Expected::At(known.revision));
                let document = serde_json::to_value(&factory).map_err(|error| invalid("factory", error.to_string()))?;
                let put = self.ports.fleet.put(Collection::Factories, factory.id.as_str(), expected, Some(document));
                settle_put(put.await)?
            }
        };
        let mut desk = self.desk.lock();
        let id = factory.id.clone();
        desk.factories.insert(id.clone(), Versioned { value: factory, revision });
        self.show_to_scheduler(&mut desk, &id);
        Ok(())
    }

    fn heard(&self, who: &Principal, id: &FactoryId, load: f64, disk: Option<u64>, now: Timestamp) {
        let heard = self.ports.clock.monotonic();
        {
            let mut desk = self.desk.lock();
            let pulse = Pulse { last: now, heard, load, disk_free_bytes: disk, products: who.products() };
            desk.pulses.insert(id.clone(), pulse);
            self.show_to_scheduler(&mut desk, id);
        }
        self.work.notify_one();
        self.timer.notify_one();
    }

    /// Shows a factory to the scheduler as it is now.
    pub(crate) fn show_to_scheduler(&self, desk: &mut crate::desk::Desk, id: &FactoryId) {
        let Some(factory) = desk.factories.get(id).map(|factory| factory.value.clone()) else { return };
        let pulse = desk.pulses.get(id);
        let presence = self.presence(pulse);
        let free = pulse.and_then(|pulse| pulse.disk_free_bytes);
        let state = FactoryState {
            factory,
            products: pulse.map(|pulse| pulse.products.clone()).unwrap_or_default(),
            presence,
            load: pulse.map_or(0.0, |pulse| pulse.load),
            health: self.counters.health(id),
            disk_low: free.is_some_and(|free| free < self.settings.disk_free_min_bytes),
        };
        desk.fleet.upsert(state);
    }

    pub(crate) fn presence(&self, pulse: Option<&Pulse>) -> scheduler::Presence {
        let now = self.ports.clock.monotonic();
        match pulse {
            Some(pulse) if now.saturating_sub(pulse.heard) <= self.settings.stale_after => scheduler::Presence::Live,
            None if self.is_warming() => scheduler::Presence::Warming,
            Some(_) | None => scheduler::Presence::Stale,
        }
    }

    pub(crate) fn factory(&self, id: &FactoryId) -> Result<Versioned<Factory>, Error> {
        self.desk.lock().factories.get(id).cloned().ok_or_else(|| Error::NoSuchFactory(id.clone()))
    }

    fn heartbeat_answer(&self, factory_id: FactoryId, superseded: bool, draining: bool) -> HeartbeatAnswer {
        HeartbeatAnswer {
            factory_id,
            renew_every_ms: millis(self.settings.renew_every),
            lease_ttl_ms: millis(self.settings.lease_ttl),
            directives: if draining { vec![Directive::Drain] } else { Vec::new() },
            superseded,
        }
    }
}

/// A document that somebody else wrote at the same moment is read again with the next sign of life.
pub(crate) fn settle_put(put: Result<domain::Revision, CommitError>) -> Result<domain::Revision, Error> {
    put.map_err(|error| match error {
        CommitError::Stale | CommitError::Unknown => Error::NotNow("somebody else changed it: try again".to_owned()),
        CommitError::Store(error) => Error::Store(error),
    })
}

fn check(beat: &Heartbeat) -> Result<(), Error> {
    if beat.protocol > protocol::PROTOCOL_VERSION || beat.protocol + 1 < protocol::PROTOCOL_VERSION {
        return Err(Error::OldProtocol { found: beat.protocol });
    }
    if beat.seat_limit > SEATS_MAX {
        return Err(invalid("seatLimit", format!("{SEATS_MAX} at most, found {}", beat.seat_limit)));
    }
    if beat.capabilities.len() > CAPABILITIES_MAX || beat.repos.len() > CAPABILITIES_MAX {
        return Err(invalid("capabilities", format!("{CAPABILITIES_MAX} at most")));
    }
    if !beat.load.is_finite() || beat.load < 0.0 {
        return Err(invalid("load", "expected a number from 0 on".to_owned()));
    }
    Ok(())
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

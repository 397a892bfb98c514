//! Factories: registration, heartbeats, removal.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use domain::{
    BrokerLogin, Capability, Collection, DispatchSeq, EngineHealth, ErrandState, Expected, Factory, FactoryId,
    InstanceId, Job, JobId, MessageId, OfferEnd, ProductId, Receives, RepoName, Revision, Timestamp, UnavailableRepo,
    Versioned,
};
use protocol::{Directive, DrainRequest, Heartbeat, HeartbeatResponse, PruneResponse};
use scheduler::FactoryState;
use serde::{Deserialize, Serialize};
use tracing::{debug, info, warn};

use crate::commit::cas_documents::{PutOutcome, is_conflict};
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::state::FleetState;
use crate::state::factories::Liveness;
use crate::submit::invalid;
use crate::submit::sanitize::{check_name, cut, short};
use crate::work::quota::CREDENTIAL_LEN_MAX;

/// More seats are a typing mistake.
const SEATS_MAX: u32 = 10_000;

/// The limit of a factory's capabilities.
const CAPABILITIES_MAX: usize = 1_000;

/// Engines of a factory, each with all of its credentials.
const ENGINES_MAX: usize = 100;

/// The largest load: 1 is a fully used machine.
const LOAD_MAX: f64 = 1_000_000.0;

/// The limit of a version string.
const VERSION_CHARS_MAX: usize = 100;

/// Concurrent heartbeats while a factory's usage window is cleared, before the caller has to retry.
const CLEAR_ROUNDS_MAX: u32 = 8;

/// A factory as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Registration {
    #[serde(flatten)]
    pub(crate) factory: Factory,
    /// Former processes, the latest last. Stored, so that a restarted coordinator knows which process is newer.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) former: VecDeque<InstanceId>,
    /// When it signed off, until it connects again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stopped_at: Option<Timestamp>,
}

impl Coordinator {
    /// A heartbeat with the factory's description. Stored only when that changed.
    pub async fn heartbeat(&self, who: &Principal, beat: Heartbeat) -> Result<HeartbeatResponse, Error> {
        let id = who.factory()?.clone();
        check(&beat)?;
        self.process(&id, beat.instance)?;
        self.check_credentials(&id, &beat.engines)?;
        let known = self.state.lock().factory(&id).cloned();
        if known.as_ref().is_some_and(|known| self.is_superseded(&known.value, beat.instance)) {
            return Ok(self.heartbeat_answer(who, id, true, false));
        }
        if beat.leaving {
            self.leave(&id, known).await;
            return Ok(self.heartbeat_answer(who, id, false, true));
        }
        let (load, disk) = (beat.load, beat.disk_free_bytes);
        let (receives, wants_broker_login) = (beat.receives, beat.wants_broker_login);
        let shadows = beat.shadows.clone();
        let now = self.now();
        let factory = self.described(&id, who, beat, known.as_ref().map(|known| &known.value));
        let is_new_process = known.as_ref().is_none_or(|known| known.value.instance != factory.instance);
        let draining = factory.draining;
        if is_new_process {
            self.state.lock().note_new_process(&id);
        }
        self.register(factory.clone(), known, None).await?;
        self.note_heartbeat(who, &id, load, disk, now);
        self.note_receives(&id, receives);
        for shadow in shadows {
            let message = MessageId::of_shadow(shadow.job_id, shadow.dispatch_seq);
            self.note_shadow_delivered(&id, message, Duration::from_millis(shadow.held_ms));
        }
        self.resume_changed_logins(&id).await;
        if is_new_process {
            self.note_accepted(&id);
            info!(factory.id = %id, "Factory `{id}` registered with {}", domain::counted(factory.seat_limit, "seat"));
            self.revoke_others(&factory).await;
            if let Some(pool) = &factory.pool {
                self.state.lock().note_pool_joined(pool);
            }
        }
        let broker_login = if wants_broker_login { self.broker_login(&id).await } else { None };
        Ok(HeartbeatResponse { broker_login, ..self.heartbeat_answer(who, id, false, draining) })
    }

    /// Routes a factory's offers as it reported.
    fn note_receives(&self, id: &FactoryId, receives: Receives) {
        self.state.lock().set_receives(id, receives);
        self.ports.broker.receives(id, receives);
    }

    /// A login for a factory's queue at the broker. Without one the factory receives through its inbox.
    async fn broker_login(&self, id: &FactoryId) -> Option<BrokerLogin> {
        match self.ports.broker.login(id, self.now()).await {
            Ok(login) => login,
            Err(error) => {
                debug!(factory.id = %id, %error, "Factory `{id}` gets no login for the broker");
                None
            }
        }
    }

    /// Rejects a credential whose id is that of another factory's unnamed one: its usage windows are not this
    /// factory's.
    fn check_credentials(&self, id: &FactoryId, engines: &[EngineHealth]) -> Result<(), Error> {
        let state = self.state.lock();
        let is_foreign = |credential: &str| {
            let owner = credential.split_once('/').and_then(|(factory, _)| factory.parse::<FactoryId>().ok());
            owner.is_some_and(|owner| owner != *id && state.has_factory(&owner))
        };
        match engines.iter().filter_map(|engine| engine.credential.as_deref()).find(|named| is_foreign(named)) {
            Some(named) => Err(invalid("engines.credential", format!("`{named}` belongs to another factory"))),
            None => Ok(()),
        }
    }

    /// Whether another process has registered after this one and is alive or may be. The order of registration decides
    /// which one is newer, never the factory's own clock (rows 6 and 10).
    fn is_superseded(&self, known: &Factory, instance: InstanceId) -> bool {
        let state = self.state.lock();
        let presence = self.presence(state.liveness_of(&known.id));
        let may_be_alive = !matches!(presence, scheduler::Presence::Stale | scheduler::Presence::Down);
        state.is_former_instance(&known.id, instance) && may_be_alive
    }

    /// A factory signs off: it gets no work from now on, before its heartbeats are missed. This is stored, so that a
    /// restarted coordinator does not report it as missing.
    async fn leave(&self, id: &FactoryId, known: Option<Versioned<Factory>>) {
        let now = self.now();
        info!(factory.id = %id, "Factory `{id}` deregistered");
        self.ports.broker.receives(id, Receives::Inbox);
        if let Some(known) = known
            && let Err(error) = self.register(known.value.clone(), Some(known), Some(now)).await
        {
            warn!(factory.id = %id, %error, "Cannot record that factory `{id}` deregistered");
        }
        {
            let mut state = self.state.lock();
            state.set_liveness(id, self.stopped_liveness(now));
            self.show_to_scheduler(&mut state, id);
        }
        self.withdraw_offers_of(id).await;
        // A factory of a pool is removed as soon as it holds nothing.
        self.work.notify_one();
        self.timer.notify_one();
    }

    /// Takes back the offers that a stopped factory has not accepted: another one gets them at once.
    async fn withdraw_offers_of(&self, id: &FactoryId) {
        let (offers, errands) = {
            let state = self.state.lock();
            let offer_of =
                |job: &Job| job.dispatch().filter(|offer| offer.target == *id).map(|offer| (job.id(), offer.seq));
            let offers: Vec<_> = state.seated(id).filter_map(|job| offer_of(&job.value)).collect();
            let errands = state.errands_of(id).into_iter().filter_map(|job| state.job(job));
            let errands: Vec<_> = errands.filter_map(|job| offered_errand(&job.value)).collect();
            (offers, errands)
        };
        let why = || format!("factory `{id}` stopped");
        for (job, seq) in offers {
            if let Err(error) = self.withdraw_offer(job, seq, OfferEnd::Withdrawn(why())).await {
                warn!(job.id = %job, %error, "Could not take back an offer from factory `{id}`, its deadline does");
            }
        }
        for (job, seq) in errands {
            if let Err(error) = self.take_errand_back(job, seq, why()).await {
                warn!(job.id = %job, %error, "Could not take back an errand from factory `{id}`, its deadline does");
            }
        }
    }

    fn stopped_liveness(&self, at: Timestamp) -> Liveness {
        Liveness {
            last: at,
            heard: self.ports.clock.monotonic(),
            load: 0.0,
            disk_free_bytes: None,
            disk_low_since: None,
            // Its tokens define which products it works for.
            products: BTreeSet::new(),
            disconnected_since: None,
            receives: Receives::Inbox,
            stopped_at: Some(at),
        }
    }

    /// Drains a factory, or resumes it.
    pub async fn drain(&self, who: &Principal, id: &FactoryId, request: &DrainRequest) -> Result<(), Error> {
        match request.draining {
            true => who.factory_or_admin(id)?,
            // A factory may drain itself. Only an administrator, who may have drained it on suspicion, resumes it.
            false => who.require_admin()?,
        }
        let known = self.factory(id)?;
        let factory = Factory { draining: request.draining, ..known.value.clone() };
        let stopped_at = self.state.lock().stopped_at(id);
        self.register(factory, Some(known), stopped_at).await?;
        let directive = if request.draining { Directive::Drain } else { Directive::Resume };
        self.inboxes.direct(id, directive);
        info!(factory.id = %id, draining = request.draining, "Factory `{id}` was asked to {}", if request.draining { "drain" } else { "resume" });
        self.work.notify_one();
        Ok(())
    }

    /// Removes a factory and its tokens. Its jobs are requeued.
    pub async fn deregister(&self, who: &Principal, id: &FactoryId) -> Result<(), Error> {
        who.require_admin()?;
        let known = self.factory(id)?;
        // The tokens first: what an administrator removes must not come back.
        self.revoke_factory_tokens(id).await?;
        self.remove_factory(id, known.revision).await?;
        info!(factory.id = %id, by = %who.name, "Factory `{id}` was removed");
        Ok(())
    }

    /// Removes a member of a pool that has left, unless it is back.
    pub(crate) async fn remove_member(&self, id: &FactoryId) -> Result<(), Error> {
        let known = {
            let state = self.state.lock();
            let is_back = matches!(state.presence_of(id), None | Some(scheduler::Presence::Live));
            let Some(known) = state.factory(id).filter(|_| !is_back) else { return Ok(()) };
            known.revision
        };
        self.remove_factory(id, known).await?;
        self.revoke_factory_tokens(id).await?;
        info!(factory.id = %id, "Factory `{id}` has left its pool");
        Ok(())
    }

    /// Removes a factory as it was at a revision, and its queue at the broker. Its jobs are requeued.
    async fn remove_factory(&self, id: &FactoryId, revision: Revision) -> Result<(), Error> {
        let expected = Expected::At(revision);
        match self.put_document::<Registration>(Collection::Factories, id.as_str(), expected, None).await? {
            PutOutcome::Written(_) | PutOutcome::Lost(None) => {}
            PutOutcome::Lost(Some(found)) => {
                self.cache_factory(found);
                return Err(is_conflict());
            }
        }
        let held = {
            let mut state = self.state.lock();
            self.note_factory_removed(&state, id);
            state.remove_factory(id)
        };
        self.counters.forget(id);
        self.claim_locks.forget(id);
        self.inboxes.close(id);
        for (job, epoch) in held {
            self.reap(job, epoch).await;
        }
        // What is left there is a hint about offers that no factory will accept.
        if let Err(error) = self.ports.broker.dismiss(id).await {
            warn!(factory.id = %id, %error, "Could not remove the broker's queue of factory `{id}`");
        }
        Ok(())
    }

    /// Removes every factory that has been silent for long and holds no lease [T7].
    pub async fn prune(&self, who: &Principal) -> Result<PruneResponse, Error> {
        who.require_admin()?;
        let now = self.ports.clock.monotonic();
        let silent: Vec<FactoryId> = {
            let state = self.state.lock();
            let is_silent = |id: &&FactoryId| {
                let pulse = state.liveness_of(id).filter(|pulse| pulse.stopped_at.is_none());
                pulse.is_none_or(|pulse| now.saturating_sub(pulse.heard) > self.settings.stale_after)
                    && state.leases_of_factory(id).is_empty()
            };
            state.factory_ids().filter(is_silent).cloned().collect()
        };
        if self.is_warming() {
            return Err(Error::NotReady(
                "the coordinator has just started and waits for the factories to reconnect".to_owned(),
            ));
        }
        for id in &silent {
            self.deregister(who, id).await?;
        }
        Ok(PruneResponse { factories: silent })
    }

    /// The factory's description, limited to its token's scope.
    fn described(&self, id: &FactoryId, who: &Principal, beat: Heartbeat, known: Option<&Factory>) -> Factory {
        let allowed = who.capabilities();
        let is_allowed = |token: &Capability| allowed.is_empty() || allowed.contains(token);
        let repos: BTreeSet<_> = beat.repos.into_iter().filter(|repo| is_allowed(&Capability::repo(repo))).collect();
        let repo_identities = beat.repo_identities.into_iter().filter(|(repo, _)| repos.contains(repo)).collect();
        let offered = beat.capabilities.into_iter().map(Capability::canonical);
        let mut capabilities: BTreeSet<_> = offered.filter(is_allowed).collect();
        capabilities.extend(repos.iter().map(Capability::repo));
        Factory {
            id: id.clone(),
            instance: beat.instance,
            capabilities,
            repos,
            // A factory that may clone any repository needs no list of allowed ones.
            clones: beat.clones && allowed.is_empty(),
            seat_limit: beat.seat_limit,
            engine_seats: beat.engine_seats,
            repo_seats: beat.repo_seats,
            engine_health: beat.engines.into_iter().map(|engine| scoped(who, bounded(engine))).collect(),
            cost: beat.cost.min(100),
            draining: known.is_some_and(|known| known.draining),
            version: short(&beat.version, VERSION_CHARS_MAX),
            joined_at: known.map_or_else(|| self.now(), |known| known.joined_at),
            unavailable_repos: unavailable(beat.unavailable_repos, known),
            repo_identities,
            resumed_windows: known.map(|known| known.resumed_windows.clone()).unwrap_or_default(),
            pool: who.pool().cloned(),
        }
        .without_resumed_windows(self.now())
    }

    /// Clears the usage window of a credential that a factory reports, up to `until`: its next heartbeats repeat it.
    pub(crate) async fn clear_reported_window(
        &self,
        id: &FactoryId,
        credential: &str,
        until: Timestamp,
    ) -> Result<(), Error> {
        for _ in 0..CLEAR_ROUNDS_MAX {
            let Ok(known) = self.factory(id) else { return Ok(()) };
            let mut factory = known.value.clone();
            factory.resumed_windows.insert(credential.to_owned(), until);
            let factory = factory.without_resumed_windows(self.now());
            let stopped_at = self.state.lock().stopped_at(id);
            // A heartbeat may have been written meanwhile.
            match self.register(factory, Some(known), stopped_at).await {
                Err(Error::NotReady(_)) => {}
                written => return written,
            }
        }
        Err(is_conflict())
    }

    /// Stores a factory's description, if it changed.
    async fn register(
        &self,
        factory: Factory,
        known: Option<Versioned<Factory>>,
        stopped_at: Option<Timestamp>,
    ) -> Result<(), Error> {
        let id = factory.id.clone();
        let written_stop = self.state.lock().stopped_at(&id);
        let is_written = known.as_ref().is_some_and(|known| known.value == factory) && written_stop == stopped_at;
        let expected = known.as_ref().map_or(Expected::Absent, |known| Expected::At(known.revision));
        let last = known.as_ref().map(|known| known.value.instance);
        let former = self.state.lock().former_instances(&id, last, factory.instance);
        let registration = Registration { factory, former, stopped_at };
        let put = match known.as_ref() {
            Some(known) if is_written => PutOutcome::Written(known.revision),
            _ => self.put_document(Collection::Factories, id.as_str(), expected, Some(&registration)).await?,
        };
        let (now, outcome) = match put {
            PutOutcome::Written(revision) => (Some(Versioned { value: registration, revision }), Ok(())),
            PutOutcome::Lost(found) => (found, Err(is_conflict())),
        };
        if let Some(now) = now {
            self.cache_factory(now);
        }
        outcome
    }

    /// Takes a stored factory into memory.
    pub(crate) fn cache_factory(&self, written: Versioned<Registration>) {
        let Registration { factory, former, stopped_at } = written.value;
        let id = factory.id.clone();
        let mut state = self.state.lock();
        match stopped_at {
            Some(at) => state.set_liveness(&id, self.stopped_liveness(at)),
            None => state.clear_stop(&id),
        }
        state.put_factory(Versioned { value: factory, revision: written.revision }, former);
        self.show_to_scheduler(&mut state, &id);
    }

    pub(crate) fn note_heartbeat(&self, who: &Principal, id: &FactoryId, load: f64, disk: Option<u64>, now: Timestamp) {
        let heard = self.ports.clock.monotonic();
        {
            let mut state = self.state.lock();
            let last = state.liveness_of(id);
            let disk_low_since = last.and_then(|pulse| pulse.disk_low_since).unwrap_or(now);
            let disk_low_since = self.is_disk_low(disk).then_some(disk_low_since);
            let products = who.products();
            let disconnected_since = last.and_then(|pulse| pulse.disconnected_since);
            let receives = last.map(|pulse| pulse.receives).unwrap_or_default();
            let pulse = Liveness {
                last: now,
                heard,
                load,
                disk_free_bytes: disk,
                disk_low_since,
                products,
                disconnected_since,
                receives,
                stopped_at: None,
            };
            state.set_liveness(id, pulse);
            self.show_to_scheduler(&mut state, id);
        }
        self.work.notify_one();
        self.timer.notify_one();
    }

    /// A factory's inbox stream closed: it gets no offers until it reconnects. One that signed off is not disconnected.
    pub(crate) fn note_disconnected(&self, id: &FactoryId) {
        let now = self.now();
        let mut state = self.state.lock();
        if !state.disconnect(id, now) {
            return;
        }
        self.show_to_scheduler(&mut state, id);
        if !self.stopping.is_cancelled() && !state.is_retiring(id) {
            warn!(factory.id = %id, "Factory `{id}` is disconnected: its inbox stream closed, its leases continue");
        }
    }

    /// A factory opened its inbox, or claims work.
    pub(crate) fn note_connected(&self, id: &FactoryId) {
        let was_away = {
            let mut state = self.state.lock();
            let was_away = state.reconnect(id);
            if was_away {
                self.show_to_scheduler(&mut state, id);
            }
            was_away
        };
        if was_away {
            self.work.notify_one();
        }
    }

    /// Updates a factory in the scheduler's view.
    pub(crate) fn show_to_scheduler(&self, state: &mut FleetState, id: &FactoryId) {
        let Some(factory) = state.factory(id).map(|factory| factory.value.clone()) else { return };
        let pulse = state.liveness_of(id);
        let presence = self.presence(pulse);
        let resting = self.unavailable_engines(state, &factory);
        let free = pulse.and_then(|pulse| pulse.disk_free_bytes);
        let factory = Factory { draining: factory.draining || state.is_retiring(id), ..factory };
        let factory_state = FactoryState {
            factory,
            products: pulse.map(|pulse| pulse.products.clone()).unwrap_or_default(),
            presence,
            load: pulse.map_or(0.0, |pulse| pulse.load),
            health: self.counters.health(id),
            disk_low: self.is_disk_low(free),
            unresponsive: state.offer_pause(id),
            resting,
        };
        self.note_factory_change(state.factory_state(id), &factory_state);
        state.show_factory(factory_state);
    }

    fn is_disk_low(&self, free: Option<u64>) -> bool {
        free.is_some_and(|free| free < self.settings.disk_free_min_bytes)
    }

    pub(crate) fn presence(&self, pulse: Option<&Liveness>) -> scheduler::Presence {
        let now = self.ports.clock.monotonic();
        match pulse {
            Some(pulse) if pulse.stopped_at.is_some() => scheduler::Presence::Down,
            Some(pulse) if now.saturating_sub(pulse.heard) <= self.settings.stale_after => {
                match pulse.disconnected_since {
                    Some(_) => scheduler::Presence::Disconnected,
                    None => scheduler::Presence::Live,
                }
            }
            None if self.is_warming() => scheduler::Presence::Warming,
            Some(_) | None => scheduler::Presence::Stale,
        }
    }

    pub(crate) fn factory(&self, id: &FactoryId) -> Result<Versioned<Factory>, Error> {
        self.state.lock().factory(id).cloned().ok_or_else(|| Error::NoSuchFactory(id.clone()))
    }

    fn heartbeat_answer(
        &self,
        who: &Principal,
        factory_id: FactoryId,
        superseded: bool,
        draining: bool,
    ) -> HeartbeatResponse {
        let leave = self.state.lock().is_retiring(&factory_id).then_some(Directive::Leave);
        let directives = draining.then_some(Directive::Drain).into_iter().chain(leave).collect();
        HeartbeatResponse {
            factory_id,
            modes: self.modes.now().value.limited_to(&who.products()).for_factories(),
            renew_every_ms: millis(self.settings.renew_every),
            lease_ttl_ms: millis(self.settings.lease_ttl),
            directives,
            superseded,
            broker_login: None,
        }
    }
}

/// An offered promotion or merge that was not accepted.
fn offered_errand(job: &Job) -> Option<(JobId, DispatchSeq)> {
    match &job.errand()?.state {
        ErrandState::Dispatched { dispatch } => Some((job.id(), dispatch.seq)),
        ErrandState::Waiting { .. } | ErrandState::Held { .. } => None,
    }
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
    if beat.unavailable_repos.len() > CAPABILITIES_MAX {
        return Err(invalid("unavailableRepos", format!("{CAPABILITIES_MAX} at most")));
    }
    if beat.repo_identities.len() > CAPABILITIES_MAX {
        return Err(invalid("repoIdentities", format!("{CAPABILITIES_MAX} at most")));
    }
    if beat.engines.len() > ENGINES_MAX {
        return Err(invalid("engines", format!("{ENGINES_MAX} at most, found {}", beat.engines.len())));
    }
    for credential in beat.engines.iter().filter_map(|engine| engine.credential.as_deref()) {
        check_name("engines.credential", credential, CREDENTIAL_LEN_MAX)?;
    }
    if beat.engine_seats.len() > ENGINES_MAX {
        return Err(invalid("engineSeats", format!("{ENGINES_MAX} at most, found {}", beat.engine_seats.len())));
    }
    if beat.repo_seats.len() > CAPABILITIES_MAX {
        return Err(invalid("repoSeats", format!("{CAPABILITIES_MAX} at most, found {}", beat.repo_seats.len())));
    }
    check_load(beat.load)
}

/// Checks that the load of a machine is a number usable in a score.
pub(crate) fn check_load(load: f64) -> Result<(), Error> {
    if (0.0..=LOAD_MAX).contains(&load) {
        return Ok(());
    }
    Err(invalid("load", format!("must be between 0 and {LOAD_MAX}, found {load}")))
}

/// The repositories that a factory reports as unusable, truncated. A repeated report keeps its start time: an unchanged
/// heartbeat is not stored [I14].
fn unavailable(
    found: BTreeMap<RepoName, UnavailableRepo>,
    known: Option<&Factory>,
) -> BTreeMap<RepoName, UnavailableRepo> {
    let bounded = |(repo, found): (RepoName, UnavailableRepo)| {
        let before = known.and_then(|known| known.unavailable_repos.get(&repo)).map(|before| before.since);
        let since = before.unwrap_or(found.since);
        (repo, UnavailableRepo { message: cut(&found.message), since })
    };
    found.into_iter().map(bounded).collect()
}

/// A named credential is shared by the factories of one scope: a report about it does not affect factories whose token
/// has another scope [T3].
pub(crate) fn scoped_credential(who: &Principal, named: &str) -> String {
    let products = who.products();
    if products.is_empty() {
        return named.to_owned();
    }
    let products: Vec<_> = products.iter().map(ProductId::as_str).collect();
    format!("{named}@{}", products.join("+"))
}

fn scoped(who: &Principal, health: EngineHealth) -> EngineHealth {
    EngineHealth { credential: health.credential.as_deref().map(|named| scoped_credential(who, named)), ..health }
}

/// A factory's report about an engine, truncated.
fn bounded(health: EngineHealth) -> EngineHealth {
    let version = health.version.as_deref().map(|version| short(version, VERSION_CHARS_MAX));
    let login = health.login.as_deref().map(|login| short(login, VERSION_CHARS_MAX));
    EngineHealth { version, login, problem: health.problem.as_deref().map(cut), ..health }
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

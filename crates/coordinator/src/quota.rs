//! Usage limits: the window is the login's, the job goes back unchanged, and whoever else fits may take it at once [B1].

use std::collections::BTreeMap;

use domain::{
    Account, Collection, EngineHealth, EngineName, Expected, Factory, FactoryId, JobId, StageEvent, UsageWindow,
    Versioned, unnamed_credential,
};
use fail::fail_point;
use protocol::{CredentialList, CredentialView, QuotaAnswer, QuotaWork, ResumeCredential};
use scheduler::Rest;
use tracing::{info, warn};

use crate::commit::Decision;
use crate::coordinator::Coordinator;
use crate::desk::Desk;
use crate::documents::{Put, somebody_was_faster};
use crate::error::Error;
use crate::principal::Principal;
use crate::submit::invalid;
use crate::windows::{Hit, Hour, Window};
use crate::words::{check, check_name, cut};

/// Opaque ids of logins are hashes or short names.
pub(crate) const CREDENTIAL_LEN_MAX: usize = 200;

/// Names of windows are words.
const WINDOW_LEN_MAX: usize = 100;

/// Writers of one window who are in each other's way give up after this many rounds.
const ROUNDS_MAX: u32 = 8;

impl Coordinator {
    /// A holder's engine has used up its window: the login rests, and the job waits for whoever else can take it, or for
    /// the window. No attempt is counted, and nobody is called unhealthy.
    pub async fn quota(&self, who: &Principal, id: JobId, request: &QuotaWork) -> Result<QuotaAnswer, Error> {
        let holder = self.holder(who, id, request.lease_epoch).await?;
        check_quota(request)?;
        let credential = self.credential_of(&holder.factory, request);
        let account = Account {
            insights: request.insights.clone(),
            evidence: Vec::new(),
            message: request.message.as_deref().map(cut),
        };
        let quota_hit =
            |window: UsageWindow| StageEvent::QuotaHit { holder: holder.clone(), window, account: account.clone() };
        // Whoever has no right to the job any more has no say about the login either. Asked before the window is written,
        // which comes first: a job that is queued again must not meet the same login before it rests.
        let unnamed = UsageWindow { engine: request.engine.clone(), window: None, until: None };
        let job = self.read(id).await?;
        self.lifted((*job.value).clone())?.apply(quota_hit(unnamed), self.now(), who.actor())?;
        let window = self.use_up(&credential, id, request).await?;
        fail_point!("quota::window_written");
        let shown = window.shown();
        let job = self
            .amend(id, |job| {
                let now = self.now();
                let job = self.with_checkpoint(job, &holder, request.checkpoint.as_ref(), now, who)?;
                job.apply(quota_hit(shown.clone()), now, who.actor()).map(Decision::Write)
            })
            .await?;
        fail_point!("quota::committed");
        info!(job.id = %id, factory.id = %holder.factory, engine = %request.engine, "Job `{id}` is {shown}");
        Ok(QuotaAnswer { stage: job.value.stage().name(), until: window.until })
    }

    /// Logins whose usage window is used up.
    pub fn credentials(&self, who: &Principal) -> Result<CredentialList, Error> {
        who.look()?;
        let at = self.hour();
        let sees_all = who.products().is_empty();
        let desk = self.desk.lock();
        let view = |(credential, window): (&String, &Window)| CredentialView {
            credential: credential.clone(),
            engine: window.engine.clone(),
            window: window.window.clone(),
            since: window.since,
            until: window.until,
            hits: window.hits,
            job_id: Some(window.job).filter(|_| sees_all),
            factories: users_of(&desk, credential),
            message: window.message.clone().filter(|_| sees_all),
        };
        Ok(CredentialList { items: desk.windows.all_resting(at).map(view).collect() })
    }

    /// Lets a login go on before its window begins anew: somebody has paid for more, or knows better.
    pub async fn reopen(&self, who: &Principal, request: &ResumeCredential) -> Result<CredentialList, Error> {
        who.administer()?;
        let credential = &request.credential;
        let known = self.desk.lock().windows.get(credential).cloned();
        let Some(known) = known else {
            return Err(invalid("credential", format!("`{credential}` does not wait for a usage window")));
        };
        self.drop_window(credential, &known).await?;
        info!(by = %who.name, "A login may go on before its usage window begins anew");
        self.wake_engines();
        self.credentials(who)
    }

    /// Writes down that a login rests, unless it is known already.
    async fn use_up(&self, credential: &str, id: JobId, request: &QuotaWork) -> Result<Window, Error> {
        let jitter = self.ports.entropy.fraction();
        for _ in 0..ROUNDS_MAX {
            let hit = Hit {
                engine: request.engine.clone(),
                window: request.window.as_deref().map(cut),
                resets_at: request.resets_at,
                job: id,
                epoch: request.lease_epoch,
                message: request.message.as_deref().map(cut),
            };
            let at = self.hour();
            let (known, next) = {
                let desk = self.desk.lock();
                let next = self.settings.windows.after(desk.windows.former(credential, at), hit, at.now, jitter);
                (desk.windows.get(credential).cloned(), next)
            };
            let window = match (next, known.as_ref()) {
                (Some(window), _) => window,
                (None, Some(known)) => return Ok(known.value.clone()),
                (None, None) => unreachable!("what is not known is news"),
            };
            let expected = known.map_or(Expected::Absent, |known| Expected::At(known.revision));
            match self.put_document(Collection::Credentials, credential, expected, Some(&window)).await? {
                Put::Written(revision) => {
                    self.know_window(credential.to_owned(), Versioned { value: window.clone(), revision });
                    return Ok(window);
                }
                Put::Lost(Some(found)) => self.know_window(credential.to_owned(), found),
                Put::Lost(None) => self.desk.lock().windows.forget(credential),
            }
        }
        Err(somebody_was_faster())
    }

    /// Takes a window into memory as it is written down, and shows who rests by it to the scheduler.
    pub(crate) fn know_window(&self, credential: String, window: Versioned<Window>) {
        let at = self.hour();
        let mut desk = self.desk.lock();
        let users = users_of(&desk, &credential);
        desk.windows.know(credential, window, at);
        for factory in users {
            self.show_to_scheduler(&mut desk, &factory);
        }
        drop(desk);
        self.timer.notify_one();
    }

    /// Shows engines whose rest is over to the scheduler, and wakes whoever waits for one. Idempotent.
    pub(crate) fn wake_engines(&self) {
        let mut desk = self.desk.lock();
        let rests = |id: &&FactoryId| desk.fleet.get(id).is_some_and(|state| !state.resting.is_empty());
        let is_changed = |id: &&FactoryId| {
            let now = desk.factories.get(*id).map(|factory| self.resting(&desk, &factory.value));
            desk.fleet.get(id).map(|state| &state.resting) != now.as_ref()
        };
        let woken: Vec<FactoryId> = desk.factories.keys().filter(rests).filter(is_changed).cloned().collect();
        if woken.is_empty() {
            return;
        }
        for id in &woken {
            self.show_to_scheduler(&mut desk, id);
        }
        drop(desk);
        self.work.notify_one();
    }

    /// Forgets windows that ended long ago, so that logins that are used no more leave nothing behind.
    pub(crate) async fn purge_windows(&self) {
        let history = self.desk.lock().windows.history(self.now());
        for (credential, window) in history {
            if let Err(error) = self.drop_window(&credential, &window).await {
                warn!(%error, "Could not forget a usage window that is over, the sweep will try again");
            }
        }
    }

    async fn drop_window(&self, credential: &str, known: &Versioned<Window>) -> Result<(), Error> {
        let expected = Expected::At(known.revision);
        match self.put_document::<Window>(Collection::Credentials, credential, expected, None).await? {
            Put::Written(_) | Put::Lost(None) => self.desk.lock().windows.forget(credential),
            Put::Lost(Some(found)) => {
                self.know_window(credential.to_owned(), found);
                return Err(somebody_was_faster());
            }
        }
        Ok(())
    }

    /// The engines of a factory that get no work now, and why: the login that was found out, or what the factory says.
    pub(crate) fn resting(&self, desk: &Desk, factory: &Factory) -> BTreeMap<EngineName, Rest> {
        let at = self.hour();
        let rests = factory.engines().filter_map(|engine| {
            let rest = engine_rest(desk, factory, &engine, at)?;
            Some((engine, rest))
        });
        rests.collect()
    }

    /// The engines of a factory as people see them: with the windows that the fleet knows of.
    pub(crate) fn engines_shown(&self, desk: &Desk, factory: &Factory) -> Vec<EngineHealth> {
        let at = self.hour();
        let is_unnamed = |engine: &EngineName| factory.engine_health.iter().all(|health| health.name != *engine);
        let unnamed = factory.engines().filter(is_unnamed).map(EngineHealth::named);
        let with_window = |health: EngineHealth| {
            let window = desk.windows.resting(&health.credential_at(&factory.id), at);
            let told = health.window_until.filter(|until| *until > at.now);
            // One that a person has to end has no time to be told.
            let ended_by_a_person =
                window.filter(|window| window.until.is_none()).map(|window| window.shown().to_string());
            let credential = Some(health.credential_at(&factory.id)).filter(|_| window.is_some()).or(health.credential);
            EngineHealth {
                window_until: window.map_or(told, |window| window.shown().until),
                problem: health.problem.or(ended_by_a_person),
                credential,
                ..health
            }
        };
        factory.engine_health.iter().cloned().chain(unnamed).map(with_window).collect()
    }

    /// How long it is until the next engine may get work again.
    pub(crate) fn until_engines_wake(&self, desk: &Desk) -> Option<std::time::Duration> {
        let at = self.hour();
        let told = desk.fleet.iter().filter(|state| !state.resting.is_empty());
        let told = told.flat_map(|state| &state.factory.engine_health).filter_map(|health| health.window_until);
        let told = told.filter(|until| *until > at.now).map(|until| until.since(at.now));
        told.chain(desk.windows.next_end(at)).min()
    }

    /// The login whose window a report speaks of: one that the factory says this engine uses, or else the factory's own.
    fn credential_of(&self, factory: &FactoryId, request: &QuotaWork) -> String {
        let desk = self.desk.lock();
        let known = desk.factories.get(factory).map(|known| known.value.engine_health.as_slice()).unwrap_or_default();
        let mut own = known.iter().filter(|health| health.name == request.engine);
        let named = own.clone().find(|health| health.credential.as_deref() == Some(&request.credential));
        match (named, own.next(), own.next()) {
            (Some(health), ..) | (None, Some(health), None) => health.credential_at(factory),
            (None, ..) => unnamed_credential(factory, &request.engine),
        }
    }

    fn hour(&self) -> Hour {
        Hour { now: self.now(), monotonic: self.ports.clock.monotonic() }
    }
}

/// Why an engine of a factory gets no work: none of its logins can be used now.
fn engine_rest(desk: &Desk, factory: &Factory, engine: &EngineName, at: Hour) -> Option<Rest> {
    let window_of = |credential: &str| desk.windows.resting(credential, at).map(Window::shown);
    let own: Vec<_> = factory.engine_health.iter().filter(|health| health.name == *engine).collect();
    if own.is_empty() {
        return window_of(&unnamed_credential(&factory.id, engine)).map(Rest::Window);
    }
    let mut windows = Vec::new();
    for health in own.iter().filter(|health| health.is_usable()) {
        let told = health.window_until.filter(|until| *until > at.now);
        let told = told.map(|until| UsageWindow { engine: engine.clone(), window: None, until: Some(until) });
        windows.push(window_of(&health.credential_at(&factory.id)).or(told)?);
    }
    let first = windows.into_iter().min_by_key(|window| (window.until.is_none(), window.until));
    Some(first.map_or_else(|| Rest::Unusable { problem: problem(&own) }, Rest::Window))
}

fn problem(own: &[&EngineHealth]) -> String {
    let told = own.iter().find_map(|health| health.problem.clone());
    told.unwrap_or_else(|| "it is not signed in".to_owned())
}

/// The factories that have an engine with this login.
fn users_of(desk: &Desk, credential: &str) -> Vec<FactoryId> {
    let uses = |factory: &Factory| {
        let is_named = factory.engine_health.iter().any(|health| health.credential_at(&factory.id) == credential);
        is_named || factory.engines().any(|engine| unnamed_credential(&factory.id, &engine) == credential)
    };
    desk.factories.values().filter(|known| uses(&known.value)).map(|known| known.value.id.clone()).collect()
}

fn check_quota(request: &QuotaWork) -> Result<(), Error> {
    request.checkpoint.as_ref().map_or(Ok(()), check)?;
    if !request.credential.is_empty() {
        check_name("credential", &request.credential, CREDENTIAL_LEN_MAX)?;
    }
    request.window.as_deref().map_or(Ok(()), |window| check_name("window", window, WINDOW_LEN_MAX))
}

//! Usage limits: the quota belongs to the credential, the job is requeued unchanged, and any other eligible factory may
//! take it at once [B1].

use domain::{
    Collection, EngineHealth, EngineName, Expected, FactoryId, FailureDetails, JobId, StageEvent, Timestamp,
    UsageWindow, Versioned,
};
use fail::fail_point;
use protocol::{CredentialList, CredentialView, QuotaReport, QuotaResponse, ResumeCredential};
use tracing::{info, warn};

use crate::commit::Decision;
use crate::commit::cas_documents::{PutOutcome, is_conflict};
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::fleet::registry::scoped_credential;
use crate::state::FleetState;
use crate::submit::invalid;
use crate::submit::sanitize::{check, check_insights, check_name, cut, short};
use crate::work::engine_availability::users_of;
use crate::work::quota_windows::{LimitReport, QuotaWindow};

/// Opaque ids of credentials are hashes or short names.
pub(crate) const CREDENTIAL_LEN_MAX: usize = 200;

/// Names of windows are words.
const WINDOW_CHARS_MAX: usize = 100;

/// Retries of contending writers of one window.
const ROUNDS_MAX: u32 = 8;

impl Coordinator {
    /// A holder's engine has exhausted its quota: the credential pauses, and the job waits for another eligible factory
    /// or for the reset. No attempt is counted, and no factory loses health.
    pub async fn quota(&self, who: &Principal, id: JobId, request: &QuotaReport) -> Result<QuotaResponse, Error> {
        let holder = self.holder(who, id, request.lease_epoch).await?;
        check_quota(request)?;
        let named = scoped_credential(who, &request.credential);
        let credential = self.credential_of(&holder.factory, &request.engine, &named);
        let account = FailureDetails {
            insights: request.insights.clone(),
            message: request.message.as_deref().map(cut),
            ..FailureDetails::default()
        };
        let quota_hit = |window: UsageWindow, not_before| StageEvent::QuotaHit {
            holder: holder.clone(),
            window,
            account: account.clone(),
            not_before,
        };
        // A factory that lost the job has no say about the credential either. Checked before the window is written. The
        // window is written first: a requeued job must not meet the same credential before it pauses.
        let unnamed = UsageWindow { engine: request.engine.clone(), window: None, until: None, exhausted: false };
        let job = self.read(id).await?;
        self.migrated((*job.value).clone())?.apply(quota_hit(unnamed, None), self.now(), who.actor())?;
        let login = self.login_of(&holder.factory, &request.engine, &credential);
        let window = self.use_up(&credential, id, request, login).await?;
        fail_point!("quota::window_written");
        let shown = window.shown();
        let job = self
            .amend(id, |job| {
                let now = self.now();
                let job = self.with_checkpoint(job, &holder, request.checkpoint.as_ref(), now, who)?;
                // A factory that invents credentials must not fill the store with runs.
                let not_before = self.settings.retry.after_release(job.releases(), now);
                job.apply(quota_hit(shown.clone(), not_before), now, who.actor()).map(Decision::Write)
            })
            .await?;
        fail_point!("quota::committed");
        info!(job.id = %id, factory.id = %holder.factory, engine = %request.engine, "Job {} is {shown}", self.label(id));
        Ok(QuotaResponse { stage: job.value.stage().name(), until: window.until })
    }

    /// Credentials with an exhausted quota.
    pub fn credentials(&self, who: &Principal) -> Result<CredentialList, Error> {
        who.require_fleet_view()?;
        let at = self.clock_reading();
        let sees_all = who.products().is_empty();
        let state = self.state.lock();
        let view = |(credential, window): (&String, &QuotaWindow)| CredentialView {
            credential: credential.clone(),
            engine: window.engine.clone(),
            window: window.window.clone(),
            since: window.since,
            until: window.until,
            exhausted: window.exhausted,
            hits: window.hits,
            job_id: Some(window.job).filter(|_| sees_all),
            factories: self.visible_users(who, &state, credential),
            message: window.message.clone().filter(|_| sees_all),
        };
        let resting = state.exhausted_credentials(at);
        let shown = resting.filter(|(credential, _)| self.shows_credential(who, &state, credential));
        Ok(CredentialList { items: shown.map(view).collect() })
    }

    /// Resumes a credential before its usage window is reset. Clears the coordinator's window and those that factories
    /// report: their heartbeats repeat a reset time that the engine named.
    pub async fn resume_credential(
        &self,
        who: &Principal,
        request: &ResumeCredential,
    ) -> Result<CredentialList, Error> {
        who.require_admin()?;
        let credential = &request.credential;
        let (known, reported, users) = {
            let state = self.state.lock();
            let known = state.usage_window(credential).cloned();
            (known, reported_until(&state, credential, self.now()), users_of(&state, credential))
        };
        if known.is_none() && reported.is_none() {
            return Err(invalid("credential", format!("`{credential}` is not waiting for a usage window")));
        }
        let window = known.as_ref().map(|known| &known.value);
        let until = reported.max(window.and_then(|window| window.until.max(window.resets_at)));
        if let Some(until) = until {
            for factory in &users {
                self.clear_reported_window(factory, credential, until).await?;
            }
        }
        if let Some(known) = &known {
            self.drop_window(credential, known).await?;
        }
        info!(by = %who.name, "A credential was resumed before its usage window reset");
        self.wake_engines();
        self.credentials(who)
    }

    /// Records that a credential pauses, unless that is known already.
    async fn use_up(
        &self,
        credential: &str,
        id: JobId,
        request: &QuotaReport,
        login: Option<(FactoryId, String)>,
    ) -> Result<QuotaWindow, Error> {
        let jitter = self.ports.entropy.fraction();
        for _ in 0..ROUNDS_MAX {
            let hit = LimitReport {
                engine: request.engine.clone(),
                window: request.window.as_deref().map(|window| short(window, WINDOW_CHARS_MAX)),
                resets_at: request.resets_at,
                job: id,
                epoch: request.lease_epoch,
                message: request.message.as_deref().map(cut),
                exhausted: request.exhausted,
                login: login.clone(),
            };
            let at = self.clock_reading();
            let (known, next) = {
                let state = self.state.lock();
                let next = self.settings.windows.after(state.prior_window(credential, at), hit, at.now, jitter);
                (state.usage_window(credential).cloned(), next)
            };
            let window = match (next, known.as_ref()) {
                (Some(window), _) => window,
                (None, Some(known)) => return Ok(known.value.clone()),
                (None, None) => unreachable!("what is not known is news"),
            };
            let expected = known.map_or(Expected::Absent, |known| Expected::At(known.revision));
            match self.put_document(Collection::Credentials, credential, expected, Some(&window)).await? {
                PutOutcome::Written(revision) => {
                    self.cache_window(credential.to_owned(), Versioned { value: window.clone(), revision });
                    return Ok(window);
                }
                PutOutcome::Lost(Some(found)) => self.cache_window(credential.to_owned(), found),
                PutOutcome::Lost(None) => self.state.lock().remove_window(credential),
            }
        }
        Err(is_conflict())
    }

    /// The fingerprint of the login that a factory uses for an engine now.
    fn login_of(&self, factory: &FactoryId, engine: &EngineName, credential: &str) -> Option<(FactoryId, String)> {
        let state = self.state.lock();
        let known = &state.factory(factory)?.value;
        let own = known
            .engine_health
            .iter()
            .find(|health| health.name == *engine && health.credential_at(factory) == credential)?;
        Some((factory.clone(), own.login.clone()?))
    }

    /// Resumes credentials without credit whose key or login has changed on the factory that found out.
    pub(crate) async fn resume_changed_logins(&self, factory: &FactoryId) {
        let changed: Vec<(String, Versioned<QuotaWindow>)> = {
            let state = self.state.lock();
            let Some(known) = state.factory(factory) else { return };
            let health = known.value.engine_health.iter();
            let window = |health: &EngineHealth| {
                let credential = health.credential_at(factory);
                let window = state.usage_window(&credential)?;
                let is_changed = window.value.is_paid_by_another(factory, health.login.as_deref());
                is_changed.then(|| (credential.clone(), window.clone()))
            };
            health.filter_map(window).collect()
        };
        for (credential, window) in changed {
            info!(factory.id = %factory, "The login of a credential without credit changed: it accepts work again");
            if let Err(error) = self.drop_window(&credential, &window).await {
                warn!(%error, "Could not resume a credential, the next heartbeat retries");
            }
            self.wake_engines();
        }
    }

    /// Takes a stored window into memory, and shows the engines that it pauses to the scheduler.
    pub(crate) fn cache_window(&self, credential: String, window: Versioned<QuotaWindow>) {
        let at = self.clock_reading();
        let mut state = self.state.lock();
        let users = users_of(&state, &credential);
        state.put_window(credential, window, at);
        for factory in users {
            self.show_to_scheduler(&mut state, &factory);
        }
        drop(state);
        self.live.note();
        self.timer.notify_one();
    }

    /// Removes windows that ended long ago, so that unused credentials leave nothing behind.
    pub(crate) async fn purge_windows(&self) {
        let history = self.state.lock().ended_windows(self.now());
        for (credential, window) in history {
            if let Err(error) = self.drop_window(&credential, &window).await {
                warn!(%error, "Could not remove a usage window that has ended, the sweep retries");
            }
        }
    }

    async fn drop_window(&self, credential: &str, known: &Versioned<QuotaWindow>) -> Result<(), Error> {
        let expected = Expected::At(known.revision);
        match self.put_document::<QuotaWindow>(Collection::Credentials, credential, expected, None).await? {
            PutOutcome::Written(_) | PutOutcome::Lost(None) => self.state.lock().remove_window(credential),
            PutOutcome::Lost(Some(found)) => {
                self.cache_window(credential.to_owned(), found);
                return Err(is_conflict());
            }
        }
        self.live.note();
        Ok(())
    }
}

/// The latest reset of a credential's usage window that a factory reports.
fn reported_until(state: &FleetState, credential: &str, now: Timestamp) -> Option<Timestamp> {
    let reports =
        state.factories().flat_map(|factory| factory.engine_health.iter().map(|health| (&factory.id, health)));
    let own = reports.filter(|(id, health)| health.credential_at(id) == credential);
    own.filter_map(|(_, health)| health.window_until).filter(|until| *until > now).max()
}

fn check_quota(request: &QuotaReport) -> Result<(), Error> {
    request.checkpoint.as_ref().map_or(Ok(()), check)?;
    check_insights(&request.insights)?;
    match request.credential.as_str() {
        "" => Ok(()),
        named => check_name("credential", named, CREDENTIAL_LEN_MAX),
    }
}

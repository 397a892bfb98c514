//! Unavailable engines: their credential's quota is exhausted, or they do not work [B1][B9].

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{EngineHealth, EngineName, Factory, FactoryId, UsageWindow, unnamed_credential};
use scheduler::EngineUnavailable;

use crate::coordinator::Coordinator;
use crate::state::FleetState;
use crate::work::quota_windows::{ClockReading, QuotaWindow};

impl Coordinator {
    /// Shows engines that are available again to the scheduler, and wakes the jobs that wait for one. Idempotent.
    pub(crate) fn wake_engines(&self) {
        let mut state = self.state.lock();
        let is_changed = |factory: &&Factory| {
            let shown = state.factory_state(&factory.id).map(|factory_state| &factory_state.resting);
            let shown = shown.filter(|shown| !shown.is_empty());
            shown.is_some_and(|shown| *shown != self.unavailable_engines(&state, factory))
        };
        let woken: Vec<FactoryId> = state.factories().filter(is_changed).map(|factory| factory.id.clone()).collect();
        if woken.is_empty() {
            return;
        }
        for id in &woken {
            self.show_to_scheduler(&mut state, id);
        }
        drop(state);
        self.work.notify_one();
    }

    /// The unavailable engines of a factory and the reason: an exhausted credential, or the factory's own report.
    pub(crate) fn unavailable_engines(
        &self,
        state: &FleetState,
        factory: &Factory,
    ) -> BTreeMap<EngineName, EngineUnavailable> {
        let at = self.clock_reading();
        let unavailable = factory.engines().filter_map(|engine| {
            let reason = engine_unavailability(state, factory, &engine, at)?;
            Some((engine, reason))
        });
        unavailable.collect()
    }

    /// The engines of a factory as shown to users, with the quota windows that the fleet knows.
    pub(crate) fn engines_shown(&self, state: &FleetState, factory: &Factory) -> Vec<EngineHealth> {
        let at = self.clock_reading();
        let is_unnamed = |engine: &EngineName| factory.engine_health.iter().all(|health| health.name != *engine);
        let unnamed = factory.engines().filter(is_unnamed).map(EngineHealth::named);
        let with_window = |health: EngineHealth| {
            let window = state.exhausted_window(&health.credential_at(&factory.id), at);
            let told = health.window_until.filter(|until| *until > at.now);
            // A window that only an operator can end has no end time.
            let suspended = window.filter(|window| window.until.is_none());
            let ended_by_a_person = suspended.map(|window| match window.exhausted {
                true => "no credit left".to_owned(),
                false => "suspended until an administrator resumes it".to_owned(),
            });
            let is_closed = window.is_some() || told.is_some();
            let credential = Some(health.credential_at(&factory.id)).filter(|_| is_closed).or(health.credential);
            EngineHealth {
                window_until: window.map_or(told, |window| window.shown().until),
                problem: health.problem.or(ended_by_a_person),
                credential,
                ..health
            }
        };
        factory.engine_health.iter().cloned().chain(unnamed).map(with_window).collect()
    }

    /// The time until the next engine is available again.
    pub(crate) fn until_engines_wake(&self, state: &FleetState) -> Option<Duration> {
        let at = self.clock_reading();
        let told = state.factory_states().filter(|factory_state| !factory_state.resting.is_empty());
        let told = told
            .flat_map(|factory_state| &factory_state.factory.engine_health)
            .filter_map(|health| health.window_until);
        let told = told.filter(|until| *until > at.now).map(|until| until.since(at.now));
        told.chain(state.next_window_end(at)).min()
    }

    /// The credential that a report is about: one that the factory says this engine uses, otherwise the factory's own.
    pub(crate) fn credential_of(&self, factory: &FactoryId, engine: &EngineName, named: &str) -> String {
        let at = self.clock_reading();
        let state = self.state.lock();
        let known = state.factory(factory).map(|known| known.value.engine_health.as_slice()).unwrap_or_default();
        let own = || known.iter().filter(|health| health.name == *engine);
        let is_awake = |health: &&EngineHealth| {
            health.is_usable() && state.exhausted_window(&health.credential_at(factory), at).is_none()
        };
        // A report without one of these names is about the credential that was usable until now.
        let meant = own().find(|health| health.credential.as_deref() == Some(named));
        let meant = meant.or_else(|| own().find(is_awake)).or_else(|| own().next());
        meant.map_or_else(|| unnamed_credential(factory, engine), |health| health.credential_at(factory))
    }

    pub(crate) fn clock_reading(&self) -> ClockReading {
        ClockReading { now: self.now(), monotonic: self.ports.clock.monotonic() }
    }
}

/// Why an engine of a factory is unavailable: none of its credentials is usable now.
fn engine_unavailability(
    state: &FleetState,
    factory: &Factory,
    engine: &EngineName,
    at: ClockReading,
) -> Option<EngineUnavailable> {
    let window_of = |credential: &str| state.exhausted_window(credential, at).map(QuotaWindow::shown);
    let own: Vec<_> = factory.engine_health.iter().filter(|health| health.name == *engine).collect();
    if own.is_empty() {
        return window_of(&unnamed_credential(&factory.id, engine)).map(EngineUnavailable::Window);
    }
    let mut unavailable = Vec::new();
    for health in &own {
        let told = health.window_until.filter(|until| *until > at.now);
        let window = |until| UsageWindow { engine: engine.clone(), window: None, until: Some(until), exhausted: false };
        let window = window_of(&health.credential_at(&factory.id)).or(told.map(window));
        unavailable.push(match (health.is_usable(), window, paused(health)) {
            (true, window, _) => EngineUnavailable::Window(window?),
            (false, _, Some(paused)) => paused,
            (false, _, None) => continue,
        });
    }
    let first = unavailable.into_iter().min_by_key(|reason| {
        let until = reason.until();
        (until.is_none(), until)
    });
    Some(first.unwrap_or_else(|| EngineUnavailable::Unusable { problem: problem(&own) }))
}

/// The pause of an engine whose provider is unavailable. A factory that is late to report its end is about to retry.
fn paused(health: &EngineHealth) -> Option<EngineUnavailable> {
    let until = health.retry_at.filter(|_| health.signed_in != Some(false))?;
    Some(EngineUnavailable::Paused { until, problem: health.problem.clone()? })
}

fn problem(own: &[&EngineHealth]) -> String {
    let told = own.iter().find_map(|health| health.problem.clone());
    told.unwrap_or_else(|| "it is not signed in".to_owned())
}

/// The factories that have an engine with this credential.
pub(crate) fn users_of(state: &FleetState, credential: &str) -> Vec<FactoryId> {
    let uses = |factory: &Factory| {
        let is_named = factory.engine_health.iter().any(|health| health.credential_at(&factory.id) == credential);
        is_named || factory.engines().any(|engine| unnamed_credential(&factory.id, &engine) == credential)
    };
    state.factories().filter(|factory| uses(factory)).map(|factory| factory.id.clone()).collect()
}

//! Whether agents on this machine have a usable credential.

use std::path::PathBuf;
use std::sync::Arc;

use clock::SystemClock;
use domain::{Clock, EngineName};
use engines::{EngineContext, LoginState, Presence, Prices, presences};
use sandbox::Launcher;

use crate::compose::station_settings;
use crate::config::Config;
use crate::programs;

use super::check::Check;

/// Whether each engine has a credential that agents can use. An unknown state is not reported.
pub(super) async fn examine(config: &Config) -> Vec<Check> {
    let (factory, clock) = (&config.factory, Arc::new(SystemClock::new()) as Arc<dyn Clock>);
    let bench = EngineContext {
        launcher: Launcher::unguarded(Arc::clone(&clock)),
        clock,
        sessions: factory.state.value.join("sessions"),
        prices: Prices::default(),
        empty_home: PathBuf::from("/"),
        open: station_settings(config).map(|settings| settings.open_to_agents()).unwrap_or_default(),
    };
    // Another check reports an invalid command line.
    let presences = presences(&factory.engines.value, &bench).await.unwrap_or_default();
    let is_configured = |name: &EngineName| factory.engines.value.contains_key(name);
    presences.into_iter().filter_map(|(name, presence)| check(&name, presence, is_configured(&name))).collect()
}

fn check(name: &EngineName, presence: Presence, is_configured: bool) -> Option<Check> {
    match presence {
        Presence::Ready { login: LoginState::SignedIn, .. } => Some(Check::ok("login", format!("`{name}` has one"))),
        Presence::Ready { login: LoginState::SignedOut { why }, .. } => {
            Some(Check::warn("login", format!("`{name}` is not signed in for agents: it gets no work"), why))
        }
        Presence::Ready { login: LoginState::Unreadable { why }, .. } => {
            Some(Check::warn("login", format!("cannot tell whether `{name}` is signed in: it gets no work"), why))
        }
        Presence::Ready { login: LoginState::Unknown, .. } => None,
        Presence::Missing { why } => {
            let is_there = !is_configured && programs::found(name.as_str()).is_some();
            is_there.then(|| Check::warn("login", format!("`{name}` is not offered"), why))
        }
    }
}

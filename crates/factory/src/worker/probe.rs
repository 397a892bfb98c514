//! What a factory would advertise, detected without running it.

use std::path::PathBuf;
use std::sync::Arc;

use domain::Clock;
use sandbox::{Account, Environment, Launcher, Scrubber};
use workspace::StateDir;

use super::{WorkerError, WorkerSettings};
use crate::detect::{Capabilities, DetectConfig, detect};

impl WorkerSettings {
    /// What a factory with these settings would advertise, engines aside: probed in the sandbox, with the agents'
    /// environment and, where this process may do so, under their account.
    pub async fn probe(&self, clock: Arc<dyn Clock>) -> Result<Capabilities, WorkerError> {
        let state = StateDir::existing(&std::path::absolute(&self.state).unwrap_or_else(|_| self.state.clone()));
        let account = self.run_as.as_deref().filter(|_| rustix::process::geteuid().is_root());
        let account = account.map(Account::named).transpose()?;
        let launcher = Launcher::unguarded(clock).scrubbing(Scrubber::new(self.known_secrets()));
        let launcher = launcher.run_as(account).enclosed(self.sandbox(&state)?);
        // A factory that never ran has no state directory yet.
        let home = Some(state.empty_home()).filter(|home| home.is_dir()).unwrap_or_else(|| PathBuf::from("/"));
        let environment = Environment::cleared(std::env::vars_os(), &home, &self.environment);
        let config = DetectConfig {
            repos: self.repos.clone(),
            repo_base: self.repo_base.clone(),
            custom: self.capabilities.clone(),
            tools: self.tools.clone(),
        };
        Ok(detect(&config, &[], &environment, &launcher).await)
    }
}

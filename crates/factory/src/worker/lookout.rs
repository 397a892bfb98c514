//! Reports at once when the capabilities of this machine change [F1].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::{Capability, EngineHealth};
use sandbox::Environment;
use tracing::warn;

use super::credentials::{CredentialTrial, FileMarks, PauseCause, marks};
use super::run::chain;
use super::sign_watch::SignWatch;
use super::vicinity::Vicinity;
use super::{Worker, WorkerError};
use crate::detect::{absent_among, local_repos};
use crate::engine::{Engine, EngineError};

/// An installation changes many files: it is complete when nothing has changed for this long.
const SETTLES_AFTER: Duration = Duration::from_millis(500);

/// The longest wait for changes to settle.
const UNSETTLED_MAX: u32 = 10;

/// The configured capabilities of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) capabilities: BTreeSet<Capability>,
    pub(super) tools: BTreeMap<String, Vec<String>>,
}

/// What is watched while the factory runs.
pub(super) struct Lookout {
    surroundings: Vicinity,
    /// Files that show who is signed in, and whether a daemon runs.
    signs: SignWatch<FileMarks>,
    /// Directories that are repositories, or hold some.
    repos: SignWatch<BTreeSet<PathBuf>>,
}

impl Worker {
    /// The configuration may have changed: capabilities beyond what can be detected, and tools to detect. Reported to
    /// the coordinator at once.
    pub fn declare(&self, capabilities: BTreeSet<Capability>, tools: BTreeMap<String, Vec<String>>) {
        let next = Declared { capabilities, tools };
        self.declared.send_if_modified(|declared| {
            let is_news = *declared != next;
            if is_news {
                *declared = next;
            }
            is_news
        });
    }

    /// Starts to watch. Before the first detection: later changes are noticed, however long the coordinator takes to
    /// answer.
    pub(super) fn lookout(&self) -> Lookout {
        let login_files = self.engines.iter().flat_map(|engine| engine.login_files());
        let signs = login_files.chain(docker_socket(&self.environment)).collect();
        let local = local_repos(&self.settings.repos).into_values();
        let repos = local.chain(self.settings.repo_base.clone()).collect();
        Lookout {
            surroundings: Vicinity::on(self.surroundings(), Arc::clone(&self.clock)),
            signs: SignWatch::on(signs, marks, Arc::clone(&self.clock)),
            repos: SignWatch::on(repos, absent_among, Arc::clone(&self.clock)),
        }
    }

    /// Detects again whenever programs, repositories, a credential or docker's daemon change. The timer finds the rest.
    pub(super) async fn look_out_for_ever(&self, lookout: Lookout) -> Result<(), WorkerError> {
        let Lookout { surroundings: mut watch, mut signs, mut repos } = lookout;
        let mut declared = self.declared.subscribe();
        let at_first = (&self.settings.capabilities, &self.settings.tools);
        if at_first != (&declared.borrow().capabilities, &declared.borrow().tools) {
            declared.mark_changed();
        }
        loop {
            let rested = self.logins.next_end(self.clock.now()).unwrap_or(self.settings.detect_every);
            tokio::select! {
                () = self.clock.sleep(rested.min(self.settings.detect_every)) => {}
                () = watch.changed() => {}
                () = signs.changed() => {}
                () = repos.changed() => {}
                () = self.logins.news.notified() => {}
                Ok(()) = declared.changed() => {}
            }
            for _ in 0..UNSETTLED_MAX {
                if tokio::time::timeout(SETTLES_AFTER, watch.changed()).await.is_err() {
                    break;
                }
            }
            self.look_again().await?;
        }
    }

    /// The state of the engines, usage windows included.
    pub(super) fn engine_health(&self, mut engines: Vec<EngineHealth>) -> Vec<EngineHealth> {
        let (now, windows) = (self.clock.now(), self.windows.lock());
        for engine in &mut engines {
            let until = windows.get(engine.credential.as_deref().unwrap_or(engine.name.as_str()));
            engine.window_until = until.copied().filter(|until| *until > now);
            if let Some((cause, why, until)) = self.logins.problem(&engine.name, now) {
                engine.problem = Some(why);
                match cause {
                    PauseCause::Refused => engine.signed_in = Some(false),
                    PauseCause::Outage => engine.retry_at = Some(until),
                    PauseCause::Unready => {}
                }
            }
        }
        engines
    }

    /// A provider rejected an engine's credential. Reported before the job is released, so that neither this job nor
    /// another is placed here for it.
    pub(super) async fn rest_login(&self, engine: &dyn Engine, began: FileMarks, message: &str) {
        warn!("Engine `{}` rests until somebody signs in: its login was refused", engine.name());
        self.rest(engine, began, PauseCause::Refused, &format!("its login was refused: {message}")).await;
    }

    /// The files that an engine needs could not be prepared: the next run would end in the same way. Otherwise as with
    /// a rejected credential.
    pub(super) async fn rest_unready(&self, engine: &dyn Engine, error: &EngineError) {
        let why = chain(error);
        warn!("Engine `{}` rests for a while: {why}", engine.name());
        self.rest(engine, marks(&engine.login_files()), PauseCause::Unready, &why).await;
    }

    /// The provider of an engine is unavailable: it gets no work here for a while, and other engines and factories may
    /// run the job. Reported before the job is released, as with a rejected credential.
    pub(super) async fn pause_for_outage(&self, engine: &dyn Engine, message: &str) {
        warn!("Engine `{}` pauses: its provider is not available: {message}", engine.name());
        let why = format!("its provider is not available: {message}");
        self.rest(engine, marks(&engine.login_files()), PauseCause::Outage, &why).await;
    }

    async fn rest(&self, engine: &dyn Engine, began: FileMarks, cause: PauseCause, why: &str) {
        let tried = CredentialTrial { began, ended: marks(&engine.login_files()) };
        self.logins.rest(engine.name(), tried, cause, self.scrubber.text(why), self.clock.now());
        // A failed report is repeated by the next detection, which also has to know when this pause ends.
        let _ = self.heartbeat().await;
        self.logins.news.notify_one();
    }

    /// The directories whose content determines the capabilities of this machine.
    fn surroundings(&self) -> BTreeSet<PathBuf> {
        let path = self.environment.variable("PATH").unwrap_or_default();
        let mut folders: BTreeSet<PathBuf> =
            std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect();
        folders.extend(self.settings.repo_base.clone());
        let engines = self.settings.engines.iter().filter_map(|(name, engine)| engine.program(name));
        let tools = self.settings.tools.values().filter_map(|command_line| command_line.first().map(String::as_str));
        for program in engines.chain(tools).map(Path::new).filter(|program| program.is_absolute()) {
            folders.extend(program.parent().map(Path::to_owned));
        }
        folders
    }
}

/// The socket of docker's daemon, if it is a file of this machine.
fn docker_socket(environment: &Environment) -> Option<PathBuf> {
    match environment.variable("DOCKER_HOST") {
        None => Some(PathBuf::from("/var/run/docker.sock")),
        Some(host) => host.to_str()?.strip_prefix("unix://").map(PathBuf::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dockers_socket_is_where_its_variable_says() {
        let at = |host: &str| docker_socket(&Environment::default().with("DOCKER_HOST", host));

        assert_eq!(docker_socket(&Environment::default()), Some("/var/run/docker.sock".into()));
        assert_eq!(at("unix:///run/user/1000/docker.sock"), Some("/run/user/1000/docker.sock".into()));
        assert_eq!(at("tcp://10.0.0.1:2376"), None);
    }
}

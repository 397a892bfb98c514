//! Reports at once when the capabilities of this machine change [F1].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::{Capability, Clock, EngineHealth};
use engines::{Engine, EngineError};
use sandbox::Environment;
use tracing::warn;

use super::credentials::{CredentialTrial, FileMarks, PauseCause, marks};
use super::run::chain;
use super::{Worker, WorkerError};
use crate::detect::{absent_among, local_repos};
use crate::watch::DirectoryWatch;

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

/// Watches the files and directories that determine the capabilities of this machine, missing ones included.
pub(super) struct CapabilityWatch {
    paths: WatchedPaths,
    state: PathState,
    places: Places,
    contents: DirectoryWatch,
    around: DirectoryWatch,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct WatchedPaths {
    /// Directories in which every change counts.
    directories: BTreeSet<PathBuf>,
    /// Credential files, and the socket of a daemon: their versions count.
    files: Vec<PathBuf>,
    /// Directories that are repositories, or hold some: their existence counts.
    repos: Vec<PathBuf>,
}

/// Unrelated changes around a path are frequent: only a change of this state counts.
#[derive(PartialEq, Eq)]
struct PathState {
    present: BTreeSet<PathBuf>,
    files: FileMarks,
    absent_repos: BTreeSet<PathBuf>,
}

/// The directories that exist to be watched.
#[derive(PartialEq, Eq)]
struct Places {
    contents: BTreeSet<PathBuf>,
    around: BTreeSet<PathBuf>,
}

impl WatchedPaths {
    fn state(&self) -> PathState {
        PathState {
            present: self.directories.iter().filter(|directory| directory.is_dir()).cloned().collect(),
            files: marks(&self.files),
            absent_repos: absent_among(&self.repos),
        }
    }

    fn places(&self) -> Places {
        let (contents, missing): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) =
            self.directories.iter().cloned().partition(|directory| directory.is_dir());
        let around = missing.iter().chain(&self.files).chain(&self.repos).filter_map(|path| nearest_directory(path));
        Places { around: around.collect(), contents }
    }

    /// Watches the places that exist once the watches have started.
    fn watch(&self, clock: &Arc<dyn Clock>) -> (Places, DirectoryWatch, DirectoryWatch) {
        loop {
            let places = self.places();
            let contents = DirectoryWatch::on(&places.contents, Arc::clone(clock));
            let around = DirectoryWatch::on(&places.around, Arc::clone(clock));
            if places == self.places() {
                return (places, contents, around);
            }
        }
    }
}

impl CapabilityWatch {
    fn on(paths: WatchedPaths, clock: Arc<dyn Clock>) -> Self {
        let (places, contents, around) = paths.watch(&clock);
        Self { state: paths.state(), paths, places, contents, around, clock }
    }

    /// Resolves once a directory's content, a file, or the existence of a directory or repository has changed.
    async fn changed(&mut self) {
        loop {
            let is_content = tokio::select! {
                () = self.contents.changed() => true,
                () = self.around.changed() => false,
            };
            if self.paths.places() != self.places {
                (self.places, self.contents, self.around) = self.paths.watch(&self.clock);
            }
            let state = self.paths.state();
            if is_content || state != self.state {
                self.state = state;
                return;
            }
        }
    }
}

/// The directory that contains a path, or the nearest existing ancestor: an engine creates its own directory at the first
/// sign-in.
fn nearest_directory(path: &Path) -> Option<PathBuf> {
    path.ancestors().skip(1).find(|directory| directory.is_dir()).map(Path::to_owned)
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
    pub(super) fn capability_watch(&self) -> CapabilityWatch {
        let login_files = self.engines.iter().flat_map(|engine| engine.login_files());
        let local = local_repos(&self.settings.repos).into_values();
        let paths = WatchedPaths {
            directories: self.watched_directories(),
            files: login_files.chain(docker_socket(&self.environment)).collect(),
            repos: local.chain(self.settings.repo_base.clone()).collect(),
        };
        CapabilityWatch::on(paths, Arc::clone(&self.clock))
    }

    /// Detects again whenever programs, repositories, a credential or docker's daemon change. The timer finds the rest.
    pub(super) async fn detect_changes(&self, mut watch: CapabilityWatch) -> Result<(), WorkerError> {
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
        warn!("Engine `{}` is paused until an operator signs in: its credential was rejected", engine.name());
        self.rest(engine, began, PauseCause::Refused, &format!("its login was refused: {message}")).await;
    }

    /// The files that an engine needs could not be prepared: the next run would end in the same way. Otherwise as with
    /// a rejected credential.
    pub(super) async fn rest_unready(&self, engine: &dyn Engine, error: &EngineError) {
        let why = chain(error);
        warn!("Engine `{}` is paused for a while: {why}", engine.name());
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
    fn watched_directories(&self) -> BTreeSet<PathBuf> {
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
    use std::fs;

    use clock::SystemClock;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(300);

    fn watch(paths: WatchedPaths) -> CapabilityWatch {
        CapabilityWatch::on(paths, Arc::new(SystemClock::new()))
    }

    async fn changes(watch: &mut CapabilityWatch, within: Duration) -> bool {
        tokio::time::timeout(within, watch.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn a_directory_is_watched_once_it_appears_its_siblings_are_not() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join(".local/bin");
        let mut watch = watch(WatchedPaths { directories: [bin.clone()].into(), ..WatchedPaths::default() });

        fs::write(home.path().join("notes.txt"), "x").unwrap();
        fs::create_dir(home.path().join(".local")).unwrap();
        assert!(!changes(&mut watch, SHORT).await, "it does not exist yet");
        fs::create_dir(&bin).unwrap();
        assert!(changes(&mut watch, PATIENCE).await, "it appeared");
        fs::write(bin.join("tool"), "x").unwrap();
        assert!(changes(&mut watch, PATIENCE).await, "its content changed");
        fs::remove_dir_all(&bin).unwrap();
        assert!(changes(&mut watch, PATIENCE).await, "it was removed");
        while changes(&mut watch, SHORT).await {}
        fs::create_dir(&bin).unwrap();

        assert!(changes(&mut watch, PATIENCE).await, "it was created again");
    }

    #[tokio::test]
    async fn a_first_sign_in_is_noticed_and_other_files_are_not() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(".claude");
        let mut watch =
            watch(WatchedPaths { files: vec![directory.join(".credentials.json")], ..WatchedPaths::default() });

        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("history.jsonl"), "{}").unwrap();
        assert!(!changes(&mut watch, SHORT).await);
        fs::write(directory.join(".credentials.json"), "{}").unwrap();

        assert!(changes(&mut watch, PATIENCE).await);
    }

    #[tokio::test]
    async fn a_repository_is_noticed_when_it_appears_and_disappears() {
        let place = tempfile::tempdir().unwrap();
        let repo = place.path().join("srv/notes.git");
        let mut watch = watch(WatchedPaths { repos: vec![repo.clone()], ..WatchedPaths::default() });

        fs::create_dir_all(&repo).unwrap();
        assert!(changes(&mut watch, PATIENCE).await);
        fs::write(repo.join("HEAD"), "").unwrap();
        fs::write(place.path().join("srv/other"), "").unwrap();
        assert!(!changes(&mut watch, SHORT).await, "it neither appeared nor disappeared");
        fs::rename(&repo, place.path().join("away.git")).unwrap();

        assert!(changes(&mut watch, PATIENCE).await);
    }

    #[test]
    fn dockers_socket_is_where_its_variable_says() {
        let at = |host: &str| docker_socket(&Environment::default().with("DOCKER_HOST", host));

        assert_eq!(docker_socket(&Environment::default()), Some("/var/run/docker.sock".into()));
        assert_eq!(at("unix:///run/user/1000/docker.sock"), Some("/run/user/1000/docker.sock".into()));
        assert_eq!(at("tcp://10.0.0.1:2376"), None);
    }
}

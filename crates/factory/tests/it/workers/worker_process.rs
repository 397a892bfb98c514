//! A worker in a runtime of its own, so that it can be killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use clock::SystemEntropy;
use domain::{Clock, CommitAuthor};
use engines::EngineConfig;
use factory::{Housekeeping, Polling, Worker, WorkerError, WorkerSettings};
use forge::ForgeConfig;
use sandbox::{EnvironmentConfig, Limits, SandboxMode, Secrets};
use testkit::host::{PATIENCE, TestRemote, clock, eventually, main, notes};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use workspace::{AfterShip, GitConfig, LocalStage, RepoConfig, RunRecord, Runs, StateDir};

/// The time between SIGTERM and SIGKILL of a worker's programs.
pub(crate) const GRACE_MS: u64 = 200;

/// A running worker.
pub(crate) struct Plant {
    state: PathBuf,
    stop: CancellationToken,
    runtime: Option<Runtime>,
    running: Option<JoinHandle<Result<(), WorkerError>>>,
}

impl Plant {
    pub(crate) fn start(settings: WorkerSettings, client: Client) -> Self {
        Self::start_by(clock(), settings, client)
    }

    /// The same, with the test's own clock.
    pub(crate) fn start_by(clock: Arc<dyn Clock>, settings: WorkerSettings, client: Client) -> Self {
        let state = settings.state.clone();
        let station = Worker::open(settings, client, clock, Arc::new(SystemEntropy)).unwrap();
        let stop = CancellationToken::new();
        let runtime = Runtime::new().unwrap();
        let running = runtime.spawn(station.run(stop.clone()));
        Self { state, stop, runtime: Some(runtime), running: Some(running) }
    }

    /// Stops it, and waits for its end.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        self.running.take().unwrap().await.unwrap().unwrap();
        self.kill().await;
    }

    /// Kills it. Its state directory is unlocked when this returns.
    pub(crate) async fn kill(mut self) {
        let runtime = self.runtime.take().unwrap();
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(PATIENCE)).await.unwrap();
    }

    /// Waits until this many reports are recorded and not yet answered.
    pub(crate) async fn holds_back(&self, reports: usize) {
        let outbox = self.state.join("outbox");
        let waiting = || std::fs::read_dir(&outbox).unwrap().filter(|file| is_whole(file.as_ref().unwrap())).count();
        eventually("a report that waits", || waiting() == reports).await;
    }

    /// Its state directory.
    pub(crate) fn path(&self) -> &Path {
        &self.state
    }

    pub(crate) fn records(&self) -> Vec<RunRecord> {
        Runs::under(&StateDir::new(&self.state).unwrap()).list().unwrap().records
    }

    /// Waits until a run is kept for a person, and returns its record.
    pub(crate) async fn quarantined(&self) -> RunRecord {
        let found = || self.records().into_iter().find(|record| record.stage == LocalStage::Quarantined);
        eventually("a quarantined run", || found().is_some()).await;
        found().unwrap()
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn is_whole(file: &std::fs::DirEntry) -> bool {
    file.path().extension().is_some_and(|extension| extension == "json")
}

/// A worker with one seat that works on the forge's repository, with a shell script for an engine.
pub(crate) fn settings(name: &str, forge: &TestRemote, engine: &str) -> WorkerSettings {
    let url = forge.remote().to_str().unwrap().to_owned();
    let engine = EngineConfig { argv: ["sh", "-c", engine].map(str::to_owned).to_vec(), ..EngineConfig::default() };
    WorkerSettings {
        name: name.parse().unwrap(),
        seats: 1,
        engine_seats: BTreeMap::new(),
        repo_seats: BTreeMap::new(),
        cost: 0,
        state: forge.path(name),
        repos: [(notes(), RepoConfig::at(url, main()))].into(),
        repo_base: None,
        default_base: main(),
        engines: [("command".parse().unwrap(), engine)].into(),
        prices: BTreeMap::new(),
        capabilities: Default::default(),
        tools: BTreeMap::new(),
        environment: EnvironmentConfig::default(),
        git: GitConfig::default(),
        identity: CommitAuthor::default(),
        limits: Limits { grace_ms: GRACE_MS, ..Limits::default() },
        forge: ForgeConfig::default(),
        ref_prefix: "aq".parse().unwrap(),
        after_ship: AfterShip::DeleteBranch,
        checkpoint_every: Duration::from_secs(600),
        detect_every: Duration::from_secs(600),
        polling: Polling::default(),
        housekeeping: Housekeeping { every: None, disk_floor_bytes: 0, ..Housekeeping::default() },
        run_as: None,
        // Engines of these tests put files beside the state directory, for the tests to find.
        confine: SandboxMode::Off,
        hidden: Vec::new(),
        readable: Vec::new(),
        writable: Vec::new(),
        fixed: Vec::new(),
        secrets: Secrets::default(),
        guard: None,
        broker: None,
        run_tools: None,
    }
}

/// The same, with commands that prepare a worktree.
pub(crate) fn with_setup(mut settings: WorkerSettings, setup: &[&str]) -> WorkerSettings {
    for repo in settings.repos.values_mut() {
        repo.setup = setup.iter().map(|&command| command.to_owned()).collect();
    }
    settings
}

/// A shell command that waits for a file.
pub(crate) fn wait_for(file: &Path) -> String {
    format!("while [ ! -e '{}' ]; do sleep 0.05; done", file.display())
}

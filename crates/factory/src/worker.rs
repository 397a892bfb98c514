//! A factory at work: receives offers, holds leases, runs jobs, reports.

mod announced_jobs;
mod capability_watch;
mod connection;
mod credentials;
mod direct;
mod errand;
mod gc;
mod held_leases;
mod inbox;
mod log_buffer;
mod logs;
mod nonce;
mod poll_backoff;
mod poll_pull_request;
mod polling;
mod probe;
mod promotion;
mod pull_request;
mod recovery;
mod remotes;
mod renewal;
mod reports;
mod run;
mod run_journal;
mod sandbox_policy;
mod settings;
mod titles;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use client::{Client, ClientError};
use clock::Backoff;
use domain::{
    Capability, Checkpoint, Clock, DispatchModes, DispatchSeq, EngineHealth, Entropy, InstanceId, JobId, RepoIdentity,
    RepoName, Timestamp, UnavailableRepo,
};
use engines::{Engine, EngineContext, Prices, TemplateError};
use forge::{Forges, ForgesError};
use protocol::{DrainRequest, Heartbeat, HeartbeatResponse};
use sandbox::{AccountError, Environment, Launcher, Scrubber};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};
use workspace::{
    BranchIntents, CacheError, Error, Host, Mirror, Outbox, RepoConfig, Repository, Runs, StateDir, StateHold,
};

pub use poll_backoff::{PollBackoff, PollMode, PollResult, PollTrigger};
pub use settings::{Housekeeping, PollWhen, Polling, RunToolsCommand, WorkerSettings};

use crate::detect::{Capabilities, DetectConfig, ProbeCache, detect_again, is_repo};
use announced_jobs::AnnouncedJobs;
use capability_watch::Declared;
use connection::Connection;
use credentials::CredentialStates;
use direct::DirectReceiving;
use held_leases::HeldLeases;
use nonce::Nonce;
use remotes::Remotes;
use run_journal::RunJournal;
use titles::Titles;
use upkeep::DiskUpkeep;

/// The first retry delay of an unavailable coordinator; doubled each time up to the maximum.
const RECONNECT_FIRST: Duration = Duration::from_millis(200);
const RECONNECT_MAX: Duration = Duration::from_secs(5);

/// How long the report that this factory stops may take.
const GOODBYE_MAX: Duration = Duration::from_secs(3);

/// How long runs have to save their work and stop when the factory stops.
const FAREWELL_MAX: Duration = Duration::from_secs(60);

/// One factory, from its start to its end.
pub struct Worker {
    settings: WorkerSettings,
    client: Client,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    instance: InstanceId,
    host: Host,
    launcher: Launcher,
    /// Removes secrets from everything that leaves this process.
    scrubber: Scrubber,
    environment: Environment,
    engines: Vec<Arc<dyn Engine>>,
    /// Credentials whose usage windows are exhausted, and until when [B1].
    windows: parking_lot::Mutex<BTreeMap<String, Timestamp>>,
    logins: CredentialStates,
    /// The engine state that was last reported to the coordinator.
    advertised: parking_lot::Mutex<Vec<EngineHealth>>,
    forges: Forges,
    ledger: RunJournal,
    detected: parking_lot::Mutex<Capabilities>,
    /// Only one task detects and reports capabilities at a time.
    looking: tokio::sync::Mutex<()>,
    speaking: tokio::sync::Mutex<()>,
    /// The last answers of tools.
    tools: parking_lot::Mutex<ProbeCache>,
    remotes: Remotes,
    /// The configured capabilities of this machine.
    declared: watch::Sender<Declared>,
    holdings: HeldLeases,
    /// Dispatches that are being accepted or run, so that a repeated message starts nothing twice.
    taking: parking_lot::Mutex<HashSet<(JobId, DispatchSeq)>>,
    /// Notified when one of them ends.
    freed: Notify,
    /// The dispatch modes, as the coordinator last reported them.
    modes: watch::Sender<DispatchModes>,
    nonce: Nonce,
    /// Held while a claim is in flight.
    claiming: tokio::sync::Mutex<()>,
    /// Jobs that the coordinator announced.
    announced: AnnouncedJobs,
    connection: Connection,
    direct: DirectReceiving,
    titles: Titles,
    upkeep: DiskUpkeep,
    tasks: TaskTracker,
    stopping: CancellationToken,
    /// The coordinator told this factory to leave.
    leave: CancellationToken,
    _hold: StateHold,
}

/// Why a factory cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// An error of the host.
    #[error(transparent)]
    Host(#[from] Error),
    /// Programs cannot run under the configured account.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The configuration requires a sandbox, and this machine has none.
    #[error("`confine` is \"required\", and agents cannot be confined: {0}")]
    NotConfined(String),
    /// A cache is invalid.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// An engine's command line is invalid.
    #[error(transparent)]
    Engine(#[from] TemplateError),
    /// The forge's configuration is invalid.
    #[error(transparent)]
    Forge(#[from] ForgesError),
    /// Another process uses the same state directory.
    #[error("another factory process uses this state folder: stop it, or give this one another with `state`")]
    StateTaken,
    /// A newer process is registered under the same name.
    #[error("a newer process of factory `{0}` has registered: this one stops")]
    Superseded(domain::FactoryId),
    /// The coordinator rejected this factory.
    #[error("the coordinator refuses this factory: {0}")]
    Refused(ClientError),
}

impl Worker {
    /// A factory that is ready to work. Nothing runs yet, nothing was sent.
    pub fn open(
        settings: WorkerSettings,
        client: Client,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Arc<Self>, WorkerError> {
        let state = StateDir::new(&settings.state)?;
        let hold = state.hold()?.ok_or(WorkerError::StateTaken)?;
        for config in settings.repos.values() {
            config.check()?;
        }
        let host = settings.host(&state, Arc::clone(&clock))?;
        let account = host.account().cloned();
        let scrubber = Scrubber::new(settings.known_secrets());
        let launcher = match &settings.guard {
            Some(guard) => Launcher::guarded(guard.clone(), Arc::clone(&clock)),
            None => Launcher::unguarded(Arc::clone(&clock)),
        };
        let sandbox = settings.sandbox(&state)?;
        let launcher = launcher.run_as(account).scrubbing(scrubber.clone()).enclosed(sandbox);
        let home = state.empty_home();
        let environment = Environment::cleared(std::env::vars_os(), &home, &settings.environment);
        let forges = Forges::open(settings.forge.clone(), &home, Arc::clone(&clock))?;
        let bench = EngineContext {
            launcher: launcher.clone(),
            clock: Arc::clone(&clock),
            sessions: state.sessions(),
            prices: Prices::new(settings.prices.clone()),
            empty_home: home,
            open: settings.open_to_agents(),
        };
        let engines = engines::make_all(&settings.engines, &std::env::vars_os().collect::<Vec<_>>(), &bench)?;
        let instance = InstanceId::new(clock.now(), entropy.bytes());
        Ok(Arc::new(Self {
            client,
            instance,
            launcher,
            environment,
            engines,
            forges,
            windows: parking_lot::Mutex::default(),
            logins: CredentialStates::default(),
            advertised: parking_lot::Mutex::default(),
            ledger: RunJournal::new(Runs::under(&state), Outbox::open(&state)?, BranchIntents::under(&state)),
            detected: parking_lot::Mutex::default(),
            looking: tokio::sync::Mutex::default(),
            speaking: tokio::sync::Mutex::default(),
            tools: parking_lot::Mutex::default(),
            remotes: Remotes::default(),
            declared: watch::Sender::new(Declared {
                capabilities: settings.capabilities.clone(),
                tools: settings.tools.clone(),
            }),
            holdings: HeldLeases::default(),
            taking: parking_lot::Mutex::default(),
            freed: Notify::new(),
            modes: watch::Sender::default(),
            nonce: Nonce::at(state.claim_note()),
            claiming: tokio::sync::Mutex::default(),
            announced: AnnouncedJobs::default(),
            connection: Connection::default(),
            direct: DirectReceiving::default(),
            titles: Titles::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            leave: CancellationToken::new(),
            host,
            scrubber,
            upkeep: DiskUpkeep::default(),
            settings,
            clock,
            entropy,
            _hold: hold,
        }))
    }

    /// What a factory with these settings offers on this machine. Nothing is sent.
    pub async fn survey(
        settings: WorkerSettings,
        client: Client,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Capabilities, WorkerError> {
        Ok(Self::open(settings, client, clock, entropy)?.look_around().await)
    }

    /// Tells the coordinator that this factory drains. It is retried until the coordinator knows.
    pub async fn drain(&self) {
        let mut backoff = Backoff::new(RECONNECT_FIRST, RECONNECT_MAX);
        let path = format!("/factories/{}/drain", self.settings.name);
        loop {
            let drained: Result<serde_json::Value, _> = self.client.post(&path, &DrainRequest { draining: true }).await;
            match drained {
                Ok(_) => return,
                Err(error) => {
                    warn!(%error, "Could not tell the coordinator that this factory drains, retrying: {error}");
                }
            }
            self.clock.sleep(backoff.next_pause()).await;
        }
    }

    /// Works until `stop`, then lets running jobs save their work and releases them.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) -> Result<(), WorkerError> {
        let watch = self.capability_watch();
        *self.detected.lock() = self.look_around().await;
        let answer = tokio::select! {
            answer = self.come_back() => answer?,
            () = stop.cancelled() => {
                self.log_stopped();
                return Ok(());
            }
        };
        let name = &self.settings.name;
        info!(factory.id = %name, "Factory `{name}` is ready with {}", domain::counted(self.settings.seats, "seat"));
        self.settle_branches().await;
        let ended = tokio::select! {
            ended = self.renew_for_ever(answer) => ended,
            ended = self.receive_for_ever() => ended,
            () = self.receive_directly() => Ok(()),
            ended = self.detect_changes(watch) => ended,
            () = self.watch_leases() => Ok(()),
            () = self.claim_for_ever() => Ok(()),
            () = self.claim_announced() => Ok(()),
            () = self.replay_for_ever() => Ok(()),
            () = self.keep_house() => Ok(()),
            () = self.probe_remotes() => Ok(()),
            () = stop.cancelled() => Ok(()),
            () = self.leave.cancelled() => Ok(()),
        };
        self.say_farewell().await;
        self.log_stopped();
        ended
    }

    /// Releases what an earlier process held, then registers. In this order, because registering revokes whatever the
    /// earlier process still holds, and loses the reference to its saved work.
    async fn come_back(&self) -> Result<HeartbeatResponse, WorkerError> {
        self.recover().await;
        while !self.is_outbox_empty().await {
            self.clock.sleep(RECONNECT_FIRST).await;
            self.replay().await;
        }
        self.register().await
    }

    /// Registers, with retries; only a refusal ends it.
    async fn register(&self) -> Result<HeartbeatResponse, WorkerError> {
        let mut backoff = Backoff::new(RECONNECT_FIRST, RECONNECT_MAX);
        loop {
            match self.heartbeat().await {
                Ok(answer) if answer.superseded => return Err(WorkerError::Superseded(self.settings.name.clone())),
                Ok(answer) => {
                    self.connection.restored();
                    return Ok(answer);
                }
                Err(error) if error.is_final() => return Err(WorkerError::Refused(error)),
                Err(error) => {
                    self.connection.lost(&error);
                    self.clock.sleep(backoff.next_pause()).await;
                }
            }
        }
    }

    /// One at a time: an older report that arrives last would win.
    async fn heartbeat(&self) -> Result<HeartbeatResponse, ClientError> {
        let _turn = self.speaking.lock().await;
        let detected = self.detected.lock().clone();
        let unavailable_repos = self.unavailable_repos(&detected);
        let engines = self.engine_health(detected.engines);
        let is_usable = |repo: &RepoName| !unavailable_repos.contains_key(repo);
        let closed: BTreeSet<Capability> = unavailable_repos.keys().map(Capability::repo).collect();
        let shadows = self.direct.take_shadows(self.clock.monotonic());
        let beat = Heartbeat {
            instance: self.instance,
            capabilities: detected.capabilities.difference(&closed).cloned().collect(),
            repos: detected.repos.into_iter().filter(is_usable).collect(),
            repo_identities: detected.identities,
            clones: false,
            unavailable_repos,
            seat_limit: self.seats_offered(),
            engine_seats: self.settings.engine_seats.clone(),
            repo_seats: self.settings.repo_seats.clone(),
            cost: self.settings.cost,
            engines: engines.clone(),
            load: self.load(),
            disk_free_bytes: self.disk_free_bytes(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: protocol::PROTOCOL_VERSION,
            leaving: self.stopping.is_cancelled(),
            receives: self.direct.receives(),
            wants_broker_login: self.settings.broker.is_some() && self.direct.wants_login(self.clock.now()),
            shadows: shadows.reports(),
        };
        let answered = self.client.post("/factories/heartbeat", &beat).await;
        if answered.is_err() {
            self.direct.return_shadows(shadows);
        }
        let mut answer: HeartbeatResponse = answered?;
        self.direct.got(answer.broker_login.take());
        *self.advertised.lock() = engines;
        self.told(&answer.modes);
        Ok(answer)
    }

    /// The configured repositories that cannot be used: their remotes do not exist, or reject this machine.
    fn unavailable_repos(&self, detected: &Capabilities) -> BTreeMap<RepoName, UnavailableRepo> {
        let since = self.clock.now();
        let mut unavailable = self.remotes.listed();
        let absent = detected.absent_repos.iter();
        let absent = absent.map(|(repo, directory)| (repo, format!("{} does not exist", directory.display())));
        let unusable = detected.unusable_repos.iter().map(|(repo, why)| (repo, why.clone()));
        for (repo, message) in absent.chain(unusable) {
            unavailable.entry(repo.clone()).or_insert(UnavailableRepo { message, since });
        }
        unavailable
    }

    async fn look_around(&self) -> Capabilities {
        let declared = self.declared.borrow().clone();
        let config = DetectConfig {
            repos: self.settings.repos.clone(),
            repo_base: self.settings.repo_base.clone(),
            custom: declared.capabilities,
            tools: declared.tools,
        };
        let found = detect_again(&config, &self.engines, &self.environment, &self.launcher, &self.tools).await;
        let told = self.detected.lock().broken_tools.clone();
        for (tool, broken) in found.broken_tools.iter().filter(|(tool, broken)| told.get(*tool) != Some(*broken)) {
            let (program, message, remedy) = (broken.program.display(), &broken.message, &broken.remedy);
            info!("Tool `{tool}` is not advertised: {program} fails as agents would run it: {message} ({remedy})");
        }
        let known = self.detected.lock().absent_repos.clone();
        for (repo, folder) in found.absent_repos.iter().filter(|(repo, _)| !known.contains_key(*repo)) {
            warn!("Repository `{repo}` is not offered until its folder {} is there", folder.display());
        }
        found
    }

    /// The mirror of a repository that this factory has.
    fn mirror(&self, repo: &RepoName) -> Result<(Mirror, RepoConfig), NoRepo> {
        let configured = self.settings.repos.get(repo).cloned();
        let config = match configured {
            Some(config) => config,
            None => {
                let detected = self.detected.lock();
                // It may be gone, and was not detected again yet.
                let path = detected.found_repos.get(repo).filter(|path| is_repo(path));
                let path = path.ok_or_else(|| NoRepo::NotHere(repo.clone()))?;
                let base = self.settings.default_base.clone();
                RepoConfig::at(path.to_string_lossy(), base)
            }
        };
        let unusable = |source| NoRepo::Unusable(Error::Remote { repo: repo.clone(), source });
        let repository = Repository::of(&config).map_err(unusable)?;
        // The forge knows the remote, not a local clone of it.
        let config = RepoConfig { url: repository.url().to_owned(), ..config };
        let mirror = Mirror::new(self.host.clone(), repo.clone(), repository, &config);
        let named = self.forges.config();
        Ok((mirror.named(named.branch(repo).cloned(), named.author(repo).cloned()), config))
    }

    /// Whether this mirror can continue work that was pushed to a repository: only if it is the same one.
    fn check_repository(&self, mirror: &Mirror, pushed: Option<&Checkpoint>) -> Result<(), NoRepo> {
        match pushed.and_then(|pushed| pushed.repository.as_ref()) {
            Some(wanted) if wanted != mirror.identity() => Err(NoRepo::Other {
                repo: mirror.repo().clone(),
                wanted: wanted.clone(),
                found: mirror.identity().clone(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Updates a mirror. When it is first made, the forge is asked for the repository's size.
    async fn refresh(&self, mirror: &Mirror, config: &RepoConfig) -> Result<(), Error> {
        let size = match self.forges.of(mirror.repo(), &config.url) {
            // A forge without an answer is no reason to wait: then everything is fetched.
            Some(forge) if mirror.is_undecided() => forge.size().await.ok(),
            _ => None,
        };
        mirror.clone().of_size(size).refresh().await
    }

    /// Runnable processes per core over the last minute: 1 is full load.
    fn load(&self) -> f64 {
        let one_minute = std::fs::read_to_string("/proc/loadavg")
            .ok()
            .and_then(|text| text.split(' ').next().and_then(|first| first.parse::<f64>().ok()));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        one_minute.map_or(0.0, |load| load / cores as f64)
    }

    fn disk_free_bytes(&self) -> Option<u64> {
        sandbox::free_bytes(&self.settings.state)
    }

    fn log_stopped(&self) {
        let name = &self.settings.name;
        info!(factory.id = %name, "Factory `{name}` stopped");
    }

    /// Every run saves its work and stops, within limits.
    async fn say_farewell(&self) {
        let (name, running) = (&self.settings.name, self.holdings.list().len());
        if running > 0 {
            let jobs = domain::counted(running, "running job");
            info!(factory.id = %name, "Factory `{name}` is stopping: waiting until {jobs} saved the work");
        }
        self.stopping.cancel();
        self.holdings.stop_all(held_leases::StopCause::Farewell);
        // Offers would only wait here for their deadline: report the stop while the runs save their work.
        let _ = tokio::time::timeout(GOODBYE_MAX, self.heartbeat()).await;
        self.tasks.close();
        if tokio::time::timeout(FAREWELL_MAX, self.tasks.wait()).await.is_err() {
            warn!("Some runs did not end in time; what they hold goes back when their leases expire");
        }
    }
}

/// A repository that is unavailable here.
#[derive(Debug, thiserror::Error)]
enum NoRepo {
    #[error("this factory does not have repository `{0}`")]
    NotHere(RepoName),
    #[error("the saved work of this job is in {wanted}, and `{repo}` is {found} on this factory")]
    Other { repo: RepoName, wanted: RepoIdentity, found: RepoIdentity },
    #[error(transparent)]
    Unusable(Error),
}

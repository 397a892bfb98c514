//! The coordinator under test: a process of its own on a directory of its own, or one that runs already.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, Endpoint, Trust};
use clock::{SystemClock, SystemEntropy};
use domain::{BrokerConnector, BudgetSettings, Clock, DispatchModes, ProductId, TokenScope};
use http::Method;
use protocol::{BudgetView, CreateTokenRequest, CreateTokenResponse, EnrolRequest, EnrolResponse, Metrics};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use store::{OpenStore, ReservedStore, StorePlace, StoreUrl};
use tokio::process::{Child, Command};

use crate::Error;
use crate::cleanup::Cleanup;
use crate::fake_worker::FakeWorker;
use crate::options::{BrokerOption, Coordinator, StoreOption};
use crate::process;
use crate::throwaway_nats::ThrowawayNats;
use crate::throwaway_postgres::ThrowawayPostgres;

/// A coordinator that does not start in this time never will.
const START_MAX: Duration = Duration::from_secs(120);

/// A stopping coordinator empties its log into its database.
const STOP_MAX: Duration = Duration::from_secs(60);

/// The ceiling of a benchmark with budgets, and what each of its runs costs.
const CEILING_USD: f64 = 1e6;
const RUN_USD: f64 = 0.01;

/// The kind of store operations by which a coordinator proves that it leads.
const LEADERSHIP: &str = "leadership_checks";

/// The directory of the coordinator that most benchmarks use.
const FLEET: &str = "fleet";

/// The prefix of the benchmarks' directories, before the process id.
const FOLDER: &str = "bench-";

/// Where benchmarks run.
pub(crate) enum BenchSite {
    /// On a coordinator that runs already.
    There(Arc<Cleanup>),
    /// On coordinators that are started in this directory, each with a store of its own.
    Here {
        /// The program of which `serve` is a coordinator.
        program: PathBuf,
        /// The directory for the data, on the disk that a coordinator of this configuration would use.
        folder: PathBuf,
        /// What they keep their jobs in.
        store: StoreOption,
        /// What delivers their offers.
        broker: BrokerOption,
    },
}

impl BenchSite {
    pub(crate) fn of(coordinator: Coordinator) -> Self {
        match coordinator {
            Coordinator::Running(admin) => Self::There(Arc::new(Cleanup::new(admin))),
            Coordinator::Own { program, data, store, broker } => {
                clear_leftovers(&data);
                let folder = data.join(format!("{FOLDER}{}", std::process::id()));
                Self::Here { program, folder, store, broker }
            }
        }
    }

    /// A directory with an empty store of its own.
    pub(crate) async fn plot(&self, name: &str) -> Result<ScratchStore, Error> {
        match self {
            Self::There(_) => Err(Error::usage("this benchmark starts coordinators of its own: leave --api away")),
            Self::Here { store: StoreOption::Named(store), folder, .. }
                if name != FLEET && store.file(folder).is_none() =>
            {
                Err(Error::usage("this benchmark fills stores of its own: say `--store postgres`, which starts one"))
            }
            Self::Here { program, folder, store, broker } => {
                ScratchStore::make(program, &folder.join(name), store, broker).await
            }
        }
    }

    /// Rejects options that would change how a coordinator works that is not ours.
    pub(crate) fn require_own(&self, option: &str) -> Result<(), Error> {
        match self {
            Self::There(_) => {
                Err(Error::usage(format!("{option} changes how the coordinator works: leave --api away")))
            }
            Self::Here { .. } => Ok(()),
        }
    }

    /// The coordinator to measure, fresh if it is ours.
    pub(crate) async fn open(&self) -> Result<BenchTarget, Error> {
        match self {
            Self::There(visit) => Ok(BenchTarget::of(Arc::clone(visit), None)),
            Self::Here { .. } => BenchTarget::start(self.plot(FLEET).await?).await,
        }
    }

    /// Removes what a benchmark has created on a coordinator that is not ours, whatever its outcome.
    pub(crate) async fn leave(&self) -> Result<(), Error> {
        match self {
            Self::There(visit) => visit.leave().await,
            Self::Here { .. } => Ok(()),
        }
    }
}

/// What a benchmark that was killed left behind goes with the next one.
fn clear_leftovers(data: &Path) {
    for entry in std::fs::read_dir(data).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(FOLDER)).and_then(|pid| pid.parse::<i32>().ok());
        if pid.is_some_and(is_dead) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether no process of this machine has a number.
fn is_dead(pid: i32) -> bool {
    Pid::from_raw(pid).is_none_or(|pid| says_dead(test_kill_process(pid)))
}

/// A process of another user cannot be signalled (EPERM), and is alive.
fn says_dead(answer: rustix::io::Result<()>) -> bool {
    answer == Err(Errno::SRCH)
}

/// A directory and a store for one coordinator. Both are removed at the end; in a database that was named, a schema of our own.
pub(crate) struct ScratchStore {
    program: PathBuf,
    folder: PathBuf,
    store: StoreUrl,
    /// Runs for as long as the plot is there.
    _server: Option<ThrowawayPostgres>,
    broker: Option<ThrowawayNats>,
    room: Option<Box<dyn ReservedStore>>,
}

impl ScratchStore {
    async fn make(program: &Path, folder: &Path, store: &StoreOption, broker: &BrokerOption) -> Result<Self, Error> {
        store::create_private_directory(folder)?;
        let broker = ThrowawayNats::of(broker)?;
        let (text, server, room) = match store {
            StoreOption::Named(store) => match reserve(store).await? {
                Some(room) => (room.address(store.reveal()), None, Some(room)),
                None => (store.reveal().to_owned(), None, None),
            },
            StoreOption::ThrowawayPostgres => {
                let server = ThrowawayPostgres::start()?;
                (server.url(), Some(server), None)
            }
        };
        let store = text.parse().map_err(|error: String| Error::failed(error))?;
        Ok(Self { program: program.to_owned(), folder: folder.to_owned(), store, _server: server, broker, room })
    }

    /// The store, while no coordinator runs on it.
    pub(crate) async fn open_store(&self) -> Result<OpenStore, Error> {
        let place = StorePlace::of(self.folder.join("fleet.db"));
        Ok(self.store.open(place, Arc::new(SystemClock::new()), &SystemEntropy).await?)
    }
}

/// A part of our own in a store on this machine: the fleets there are not affected.
async fn reserve(store: &StoreUrl) -> Result<Option<Box<dyn ReservedStore>>, Error> {
    if !store.is_local() {
        return Err(Error::usage(format!("{store} is not on this machine")).hint(
            "a benchmark loads whatever it measures: run it where the database runs, or say `--store postgres`",
        ));
    }
    let is_dead = |process: u32| i32::try_from(process).is_ok_and(is_dead);
    let reserved = store.reserve(std::process::id(), &is_dead, Arc::new(SystemClock::new())).await;
    Ok(reserved?)
}

impl Drop for ScratchStore {
    fn drop(&mut self) {
        // What cannot be removed is left behind; its name identifies it.
        let _ = std::fs::remove_dir_all(&self.folder);
        if let Some(parent) = self.folder.parent() {
            let _ = std::fs::remove_dir(parent);
        }
    }
}

/// A coordinator to measure.
pub(crate) struct BenchTarget {
    visit: Arc<Cleanup>,
    server: Option<ServerProcess>,
    /// What each run reports as its cost, in US dollars.
    cost_usd: Option<f64>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Numbers of store operations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreOperations {
    /// All but those for leadership.
    pub(crate) work: u64,
    /// Proofs that the coordinator still leads: their number depends on nothing but time.
    pub(crate) leadership: u64,
}

struct ServerProcess {
    child: Child,
    plot: ScratchStore,
}

impl BenchTarget {
    fn of(visit: Arc<Cleanup>, server: Option<ServerProcess>) -> Self {
        Self { visit, server, cost_usd: None, clock: Arc::new(SystemClock::new()) }
    }

    /// Starts a coordinator on a plot, with whatever is there.
    pub(crate) async fn start(plot: ScratchStore) -> Result<Self, Error> {
        let clock = SystemClock::new();
        let folder = plot.folder.as_path();
        let log = std::fs::File::create(folder.join("serve.log"))?;
        let mut command = Command::new(&plot.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIGA_") {
                command.env_remove(name);
            }
        }
        command.arg("serve").arg("--listen").arg("127.0.0.1:0").arg("--data").arg(folder);
        // Settings of this machine, such as a certificate, must not affect the measurement.
        let config = folder.join("giga.toml");
        let settings = plot.broker.as_ref().map(|broker| broker.settings(folder)).transpose()?;
        std::fs::write(&config, settings.unwrap_or_default())?;
        command.arg("--until-stdin-closes").arg("--config").arg(config).current_dir(folder);
        // An address may hold a password, which a command line would show to every user of the machine.
        command.env("GIGA_STORE", plot.store.reveal());
        // The log is written as in production; it is only not read here.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn()?;
        let endpoint = folder.join("endpoint");
        let started = clock.monotonic();
        let base = loop {
            match std::fs::read_to_string(&endpoint) {
                Ok(base) if !base.is_empty() => break base,
                _ => clock.sleep(Duration::from_millis(1)).await,
            }
            let is_over = child.try_wait()?.is_some();
            if is_over || clock.monotonic().saturating_sub(started) > START_MAX {
                let log = std::fs::read_to_string(folder.join("serve.log")).unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(3).collect();
                return Err(Error::failed(format!("the coordinator did not start: {}", last.join(" / "))));
            }
        };
        let token = std::fs::read_to_string(folder.join("admin.token"))?.trim().to_owned();
        let admin = Client::new(Endpoint { base, token, product: None, trust: Trust::Public })?;
        Ok(Self::of(Arc::new(Cleanup::new(admin)), Some(ServerProcess { child, plot })))
    }

    /// Ends the coordinator, if it is ours, and gives its plot back; another one is left as it was.
    pub(crate) async fn stop(self) -> Result<Option<ScratchStore>, Error> {
        let Some(mut server) = self.server else {
            self.visit.leave().await?;
            return Ok(None);
        };
        drop(server.child.stdin.take());
        if tokio::time::timeout(STOP_MAX, server.child.wait()).await.is_err() {
            server.child.kill().await?;
        }
        if let Some(room) = server.plot.room.take() {
            room.remove().await?;
        }
        Ok(Some(server.plot))
    }

    /// Waits until the coordinator reports that it is ready.
    pub(crate) async fn is_ready(&self) -> Result<(), Error> {
        let started = self.clock.monotonic();
        while let Err(error) = self.admin().get::<serde_json::Value>("/readyz").await {
            if self.clock.monotonic().saturating_sub(started) > START_MAX {
                return Err(error.into());
            }
            self.clock.sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// A client that may do everything.
    pub(crate) fn admin(&self) -> &Client {
        self.visit.admin()
    }

    /// The process of the coordinator, if it is ours.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.server.as_ref().and_then(|server| server.child.id())
    }

    /// Processor time that the coordinator has used so far.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        self.pid().and_then(process::cpu_time)
    }

    /// The benchmarks' own product, which ships finished jobs automatically.
    pub(crate) async fn product(&self) -> Result<ProductId, Error> {
        self.visit.product().await
    }

    /// Enforces a budget on the product, far below which the benchmark stays: every grant reserves money, and every run
    /// reports a cost.
    pub(crate) async fn enforce_budget(&mut self, product: &ProductId) -> Result<(), Error> {
        let (flags, tag) = self.admin().flags().await?;
        self.admin().set_flags(&DispatchModes { budgets: Some(true), ..flags }, Some(&tag)).await?;
        let budget = BudgetSettings { ceiling_usd: Some(CEILING_USD), ..BudgetSettings::default() };
        let _: BudgetView = self.admin().call(Method::PUT, &format!("/budgets/{product}"), Some(&budget)).await?;
        self.cost_usd = Some(RUN_USD);
        Ok(())
    }

    /// The client of factory `n`, enrolled and alive. It works for the product alone.
    pub(crate) async fn hire(&self, product: &ProductId, n: usize, seats: u32) -> Result<FakeWorker, Error> {
        let factory = self.visit.factory(n)?;
        let grant = TokenScope::Join {
            factory: Some(factory.clone()),
            products: std::iter::once(product.clone()).collect(),
            capabilities: std::collections::BTreeSet::new(),
            pool: None,
        };
        let token = CreateTokenRequest {
            name: format!("bench {factory}"),
            grant,
            ttl_seconds: None,
            owner: None,
            forge_login: None,
        };
        let made: CreateTokenResponse = self.admin().post("/tokens", &token).await?;
        let enroll = EnrolRequest { join_token: made.secret, factory_id: factory.clone(), nonce: None };
        let enrolled: EnrolResponse = self.admin().post("/factories/enroll", &enroll).await?;
        let endpoint = Endpoint {
            base: self.admin().base().to_owned(),
            token: enrolled.token,
            product: None,
            trust: Trust::Public,
        };
        let hand = FakeWorker::new(factory, Client::new(endpoint)?, seats).with_cost(self.cost_usd);
        match self.connector() {
            Some(connector) => hand.connected(&*connector).await,
            None => hand.beat().await.map(|_| hand),
        }
    }

    /// How factories connect to the broker, if they receive from it.
    fn connector(&self) -> Option<Arc<dyn BrokerConnector>> {
        Some(self.server.as_ref()?.plot.broker.as_ref()?.connector())
    }

    /// Store operations so far.
    pub(crate) async fn store_operations(&self) -> Result<StoreOperations, Error> {
        let metrics: Metrics = self.admin().get("/metrics").await?;
        let leadership = metrics.store_operations.get(LEADERSHIP).copied().unwrap_or_default();
        let all: u64 = metrics.store_operations.values().sum();
        Ok(StoreOperations { work: all - leadership, leadership })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_may_not_be_asked_is_not_dead() {
        assert_eq!([Ok(()), Err(Errno::PERM), Err(Errno::SRCH)].map(says_dead), [false, false, true]);
    }
}

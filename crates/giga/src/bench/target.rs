//! The coordinator under test: a process of its own on a directory of its own, or one that runs already.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use domain::{Clock, ProductId, TokenScope};
use protocol::{
    Client, CreateTokenRequest, CreateTokenResponse, Endpoint, EnrolRequest, EnrolResponse, Metrics, Trust,
};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use store::{PostgresRoom, PostgresUrl};
use tokio::process::{Child, Command};

use crate::cli::{BenchArgs, BenchStore};
use crate::command::Context;
use crate::compose::make_private_folder;
use crate::compose::stores::{self, OpenStore, StorePlace};
use crate::config::{Origin, StoreChoice, is_loopback};
use crate::failure::Failure;

use super::cleanup::Cleanup;
use super::fake_worker::FakeWorker;
use super::process;

/// A coordinator that does not start in this time never will.
const START_MAX: Duration = Duration::from_secs(120);

/// A stopping coordinator empties its log into its database.
const STOP_MAX: Duration = Duration::from_secs(60);

/// The directory of the coordinator that most benchmarks use.
const FLEET: &str = "fleet";

/// The prefix of the benchmarks' directories, before the process id.
const FOLDER: &str = "bench-";

/// Where benchmarks run.
pub(super) enum BenchSite {
    /// On a coordinator that runs already.
    There(Arc<Cleanup>),
    /// On coordinators that are started in this directory, each with a store of its own.
    Here {
        /// The directory for the data, on the disk that a coordinator of this configuration would use.
        folder: PathBuf,
        /// What they keep their jobs in.
        store: BenchStore,
    },
}

impl BenchSite {
    pub(super) fn of(context: &Context<'_>, args: &BenchArgs) -> Result<Self, Failure> {
        let api = &context.config.client.api;
        if matches!(api.origin, Origin::Flag(_)) {
            if !is_loopback(&api.value) {
                return Err(Failure::usage(format!("{} is not on this machine", api.value))
                    .hint("a benchmark loads whatever it measures: run it where the coordinator runs"));
            }
            return Ok(Self::There(Arc::new(Cleanup::new(crate::api::connect(&context.config)?))));
        }
        let data = context.config.data.path();
        clear_leftovers(data);
        let folder = data.join(format!("{FOLDER}{}", std::process::id()));
        Ok(Self::Here { folder, store: args.store.clone() })
    }

    /// A directory with an empty store of its own.
    pub(super) async fn plot(&self, name: &str) -> Result<ScratchStore, Failure> {
        match self {
            Self::There(_) => Err(Failure::usage("this benchmark starts coordinators of its own: leave --api away")),
            Self::Here { store: BenchStore::Named { choice: StoreChoice::Postgres(_), .. }, .. } if name != FLEET => {
                Err(Failure::usage("this benchmark fills stores of its own: say `--store postgres`, which starts one"))
            }
            Self::Here { folder, store } => ScratchStore::make(&folder.join(name), store).await,
        }
    }

    /// The coordinator to measure, fresh if it is ours.
    pub(super) async fn open(&self) -> Result<BenchTarget, Failure> {
        match self {
            Self::There(visit) => Ok(BenchTarget::of(Arc::clone(visit), None)),
            Self::Here { .. } => BenchTarget::start(self.plot(FLEET).await?).await,
        }
    }

    /// Removes what a benchmark has created on a coordinator that is not ours, whatever its outcome.
    pub(super) async fn leave(&self) -> Result<(), Failure> {
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
pub(super) struct ScratchStore {
    folder: PathBuf,
    store: StoreChoice,
    /// The value of `GIGA_STORE`.
    store_text: String,
    /// Runs for as long as the plot is there.
    _server: Option<pgserver::Server>,
    room: Option<PostgresRoom>,
}

impl ScratchStore {
    async fn make(folder: &Path, store: &BenchStore) -> Result<Self, Failure> {
        make_private_folder(folder)?;
        let (store_text, store, server, room) = match store {
            BenchStore::Named { choice: StoreChoice::Postgres(url), text } => {
                let room = make_room(url).await?;
                let text = room.address(text);
                let choice = text.parse().map_err(|error: String| Failure::failed(error))?;
                (text, choice, None, Some(room))
            }
            BenchStore::Named { text, choice } => (text.clone(), choice.clone(), None, None),
            BenchStore::ThrowawayPostgres => {
                let server = pgserver::Server::start_new(pgserver::Flushes::Real)
                    .map_err(|error| Failure::failed(error.to_string()))?;
                let url = server.url();
                let choice = url.parse().map_err(|error: String| Failure::failed(error))?;
                (url, choice, Some(server), None)
            }
        };
        Ok(Self { folder: folder.to_owned(), store, store_text, _server: server, room })
    }

    /// The store, while no coordinator runs on it.
    pub(super) async fn open_store(&self) -> Result<OpenStore, Failure> {
        let place = StorePlace::of(self.folder.join("fleet.db"));
        Ok(stores::open(&self.store, place, Arc::new(SystemClock::new())).await?)
    }
}

/// A schema of our own in a database of this machine: a fleet in that database is not affected.
async fn make_room(url: &PostgresUrl) -> Result<PostgresRoom, Failure> {
    if !url.is_local() {
        return Err(Failure::usage(format!("{url} is not on this machine")).hint(
            "a benchmark loads whatever it measures: run it where the database runs, or say `--store postgres`",
        ));
    }
    let clock = Arc::new(SystemClock::new());
    let is_dead = |process: u32| i32::try_from(process).is_ok_and(is_dead);
    Ok(PostgresRoom::make(url, std::process::id(), is_dead, clock).await.map_err(anyhow::Error::new)?)
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
pub(super) struct BenchTarget {
    visit: Arc<Cleanup>,
    server: Option<ServerProcess>,
    pub(super) clock: Arc<dyn Clock>,
}

struct ServerProcess {
    child: Child,
    plot: ScratchStore,
}

impl BenchTarget {
    fn of(visit: Arc<Cleanup>, server: Option<ServerProcess>) -> Self {
        Self { visit, server, clock: Arc::new(SystemClock::new()) }
    }

    /// Starts a coordinator on a plot, with whatever is there.
    pub(super) async fn start(plot: ScratchStore) -> Result<Self, Failure> {
        let clock = SystemClock::new();
        let folder = plot.folder.as_path();
        let log = std::fs::File::create(folder.join("serve.log"))?;
        let mut command = Command::new(std::env::current_exe()?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIGA_") {
                command.env_remove(name);
            }
        }
        command.arg("serve").arg("--listen").arg("127.0.0.1:0").arg("--data").arg(folder);
        // Settings of this machine, such as a certificate, must not affect the measurement.
        let config = folder.join("giga.toml");
        std::fs::write(&config, "")?;
        command.arg("--until-stdin-closes").arg("--config").arg(config).current_dir(folder);
        // An address may hold a password, which a command line would show to every user of the machine.
        command.env("GIGA_STORE", &plot.store_text);
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
                return Err(Failure::failed(format!("the coordinator did not start: {}", last.join(" / "))));
            }
        };
        let token = std::fs::read_to_string(folder.join("admin.token"))?.trim().to_owned();
        let admin = Client::new(Endpoint { base, token, product: None, trust: Trust::Public })?;
        Ok(Self::of(Arc::new(Cleanup::new(admin)), Some(ServerProcess { child, plot })))
    }

    /// Ends the coordinator, if it is ours, and gives its plot back; another one is left as it was.
    pub(super) async fn stop(self) -> Result<Option<ScratchStore>, Failure> {
        let Some(mut server) = self.server else {
            self.visit.leave().await?;
            return Ok(None);
        };
        drop(server.child.stdin.take());
        if tokio::time::timeout(STOP_MAX, server.child.wait()).await.is_err() {
            server.child.kill().await?;
        }
        if let Some(room) = server.plot.room.take() {
            room.remove().await.map_err(anyhow::Error::new)?;
        }
        Ok(Some(server.plot))
    }

    /// Waits until the coordinator reports that it is ready.
    pub(super) async fn is_ready(&self) -> Result<(), Failure> {
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
    pub(super) fn admin(&self) -> &Client {
        self.visit.admin()
    }

    /// The process of the coordinator, if it is ours.
    pub(super) fn pid(&self) -> Option<u32> {
        self.server.as_ref().and_then(|server| server.child.id())
    }

    /// Processor time that the coordinator has used so far.
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        self.pid().and_then(process::cpu_time)
    }

    /// The benchmarks' own product, which ships finished jobs automatically.
    pub(super) async fn product(&self) -> Result<ProductId, Failure> {
        self.visit.product().await
    }

    /// The client of factory `n`, enrolled and alive. It works for the product alone.
    pub(super) async fn hire(&self, product: &ProductId, n: usize, seats: u32) -> Result<FakeWorker, Failure> {
        let factory = self.visit.factory(n)?;
        let grant = TokenScope::Join {
            factory: Some(factory.clone()),
            products: std::iter::once(product.clone()).collect(),
            capabilities: std::collections::BTreeSet::new(),
        };
        let token = CreateTokenRequest { name: format!("bench {factory}"), grant, ttl_seconds: None };
        let made: CreateTokenResponse = self.admin().post("/tokens", &token).await?;
        let enroll = EnrolRequest { join_token: made.secret, factory_id: factory.clone(), nonce: None };
        let enrolled: EnrolResponse = self.admin().post("/factories/enroll", &enroll).await?;
        let endpoint = Endpoint {
            base: self.admin().base().to_owned(),
            token: enrolled.token,
            product: None,
            trust: Trust::Public,
        };
        let hand = FakeWorker::new(factory, Client::new(endpoint)?, seats);
        hand.beat().await?;
        Ok(hand)
    }

    /// Store operations so far, all kinds together.
    pub(super) async fn store_operations(&self) -> Result<u64, Failure> {
        let metrics: Metrics = self.admin().get("/metrics").await?;
        Ok(metrics.store_operations.values().sum())
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

//! `giga scaler`: factories of pools as processes of this machine, or by a command.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use client::Client;
use clock::{SystemClock, SystemEntropy};
use domain::{Entropy, FactoryId, PoolName, TokenScope};
use parking_lot::Mutex;
use protocol::{CreateTokenRequest, CreateTokenResponse};
use scaler::{DemandFeed, FactoryExit, FactoryStarter, Scaler, ScalerOptions, StartError, StartedFactory};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use workspace::StateDir;

use super::factory::{is_enrolled, name_path};
use super::signals;
use crate::cli::ScalerArgs;
use crate::config::{Config, FINGERPRINT};
use crate::failure::Failure;
use crate::output::Output;

/// How long the command that starts a machine may take.
const COMMAND_MAX: Duration = Duration::from_secs(60);

/// How long factories have to save their work when their fleet stops.
const FAREWELL_MAX: Duration = Duration::from_secs(20);

/// A name for a factory of a pool: the pool and a random suffix.
pub(crate) fn member_name(pool: &PoolName) -> FactoryId {
    let entropy: &dyn Entropy = &SystemEntropy;
    let suffix: String = entropy.bytes::<4>().iter().map(|byte| format!("{byte:02x}")).collect();
    match format!("{pool}-{suffix}").parse() {
        Ok(name) => name,
        Err(_) => unreachable!("the name of a pool is short and begins with a letter or a digit"),
    }
}

/// Runs a scaler until it is stopped, and the factories that it started have ended.
pub(crate) async fn scaler(config: &Config, args: &ScalerArgs, out: &Output) -> Result<(), Failure> {
    let stop = signals::stop_on_signal();
    super::allow_many_connections();
    let client = crate::api::connect(config)?;
    if let Some(address) = args.grpc {
        return serve_keda(client, args, address, &stop, out).await;
    }
    let join = JoinTokens::of(&client);
    let starter: Arc<dyn FactoryStarter> = match &args.command {
        Some(command) => Arc::new(CommandStarter { command: command.clone(), api: client.base().to_owned(), join }),
        None => Arc::new(ProcessStarter {
            children: ChildCommand::of(config, client.base(), certificate(config)),
            join,
            ending: ChildEnding::Drain,
            stop: stop.clone(),
            taken: Arc::default(),
        }),
    };
    let clock = Arc::new(SystemClock::new());
    let feed = DemandFeed::new(client, clock.clone(), args.pools.iter().cloned().collect());
    // A scaler that is not allowed to read the demand says so at once.
    feed.read().await?;
    let which = match args.pools.as_slice() {
        [] => "all pools".to_owned(),
        pools => format!("pools {}", pools.iter().map(PoolName::as_str).collect::<Vec<_>>().join(", ")),
    };
    out.note(&format!("scaling {which}; stop with Ctrl-C"));
    let scaler = Scaler::new(starter, clock, ScalerOptions::default());
    tokio::join!(feed.run(&stop), scaler.run(feed.latest(), &stop));
    Ok(())
}

/// Answers KEDA. It starts before the coordinator answers: until then every answer is an error, never zero.
#[cfg(feature = "scaler-grpc")]
async fn serve_keda(
    client: Client,
    args: &ScalerArgs,
    address: SocketAddr,
    stop: &CancellationToken,
    out: &Output,
) -> Result<(), Failure> {
    let listener = tokio::net::TcpListener::bind(address).await;
    let listener = listener.map_err(|error| Failure::failed(format!("cannot listen on {address}: {error}")))?;
    out.note(&format!("KEDA's external scaler at {}; stop with Ctrl-C", listener.local_addr()?));
    let feed = DemandFeed::new(client, Arc::new(SystemClock::new()), args.pools.iter().cloned().collect());
    let service = scaler::grpc::ExternalScaler::new(feed.latest());
    let serve = async {
        let served = service.serve(listener, stop.clone()).await;
        stop.cancel();
        served
    };
    let ((), served) = tokio::join!(feed.run(stop), serve);
    served.map_err(|error| Failure::failed(format!("the server failed: {error}")))
}

#[cfg(not(feature = "scaler-grpc"))]
async fn serve_keda(
    _: Client,
    _: &ScalerArgs,
    _: SocketAddr,
    _: &CancellationToken,
    _: &Output,
) -> Result<(), Failure> {
    let failure = Failure::usage("this build has no gRPC server");
    Err(failure.hint(
        "build giga with the feature `scaler-grpc`, or let KEDA read `/api/fleet/scale` with its trigger `metrics-api`",
    ))
}

fn certificate(config: &Config) -> Option<String> {
    let digits = |pin: [u8; 32]| pin.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    config.client.pinned.map(|pin| format!("{FINGERPRINT}{}", digits(pin)))
}

/// Where a factory gets its join token from.
pub(super) enum JoinTokens {
    /// One token for all of them.
    Given(String),
    /// A one-time token for each, created with the token of an administrator.
    Created(Client),
}

impl JoinTokens {
    fn of(client: &Client) -> Self {
        match std::env::var("GIGA_JOIN").ok().filter(|token| !token.is_empty()) {
            Some(token) => Self::Given(token),
            None => Self::Created(client.clone()),
        }
    }

    async fn token(&self, pool: &PoolName, factory: &FactoryId) -> Result<String, StartError> {
        let client = match self {
            Self::Given(token) => return Ok(token.clone()),
            Self::Created(client) => client,
        };
        let grant = TokenScope::Join {
            factory: Some(factory.clone()),
            products: BTreeSet::new(),
            capabilities: BTreeSet::new(),
            pool: Some(pool.clone()),
        };
        let name = format!("join {factory}");
        let request = CreateTokenRequest { name, grant, ttl_seconds: None, owner: None, forge_login: None };
        let made: Result<CreateTokenResponse, _> = client.post("/tokens", &request).await;
        let needs_admin = |error: client::ClientError| {
            let hint = if error.code() == Some("forbidden") {
                ": give the scaler an admin token, or a join token of the pool in GIGA_JOIN"
            } else {
                ""
            };
            StartError(format!("no join token: {error}{hint}"))
        };
        made.map(|made| made.secret).map_err(needs_admin)
    }
}

/// How factories end together with their scaler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildEnding {
    /// They finish their jobs, then leave: their coordinator goes on.
    Drain,
    /// They save their work and give it back: their coordinator stops too.
    Farewell,
}

/// The command line of a factory process.
pub(super) struct ChildCommand {
    data: PathBuf,
    config: Option<PathBuf>,
    api: String,
    certificate: Option<String>,
}

impl ChildCommand {
    pub(super) fn of(config: &Config, api: &str, certificate: Option<String>) -> Self {
        let (data, file) = (config.data.path().to_owned(), config.file.clone());
        Self { data, config: file, api: api.to_owned(), certificate }
    }

    fn command(
        &self,
        pool: &PoolName,
        name: &FactoryId,
        state: &Path,
        ending: ChildEnding,
    ) -> std::io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["factory", "run", "--pool", pool.as_str(), "--name", name.as_str(), "--state"]).arg(state);
        command.arg("--data").arg(&self.data).arg(match ending {
            ChildEnding::Drain => "--drain-when-stdin-closes",
            ChildEnding::Farewell => "--until-stdin-closes",
        });
        if let Some(file) = &self.config {
            command.arg("--config").arg(file);
        }
        command.env("GIGA_API", &self.api).env_remove("GIGA_TOKEN").env_remove("GIGA_JOIN");
        if let Some(certificate) = &self.certificate {
            command.env("GIGA_CA", certificate);
        }
        // The open pipe is how the factory knows that its scaler is alive.
        command.stdin(Stdio::piped()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        // A signal for the scaler is not one for its factories: they are stopped through the pipe, in order.
        command.process_group(0);
        Ok(command)
    }
}

/// Starts factories as processes of this machine. Their state directories are used again, with the mirrors in them.
pub(super) struct ProcessStarter {
    pub(super) children: ChildCommand,
    pub(super) join: JoinTokens,
    pub(super) ending: ChildEnding,
    /// Ends the factories.
    pub(super) stop: CancellationToken,
    /// State directories in use.
    pub(super) taken: Arc<Mutex<BTreeSet<PathBuf>>>,
}

#[async_trait]
impl FactoryStarter for ProcessStarter {
    async fn start(&self, pool: &PoolName) -> Result<StartedFactory, StartError> {
        let state = self.free_state(pool)?;
        let released = ReleaseOnDrop { taken: Arc::clone(&self.taken), state: state.clone() };
        // A process that died is started again under its name: it returns what it held.
        let known = is_enrolled(&state).then(|| std::fs::read_to_string(name_path(&state)).ok()).flatten();
        let known: Option<FactoryId> = known.and_then(|name| name.trim().parse().ok());
        let name = known.clone().unwrap_or_else(|| member_name(pool));
        let join = self.join.token(pool, &name).await?;
        let child = self.children.command(pool, &name, &state, self.ending).and_then(|mut command| {
            // The token goes through the environment: a command line can be read by every user of the machine.
            command.env("GIGA_JOIN", join).spawn()
        });
        let child = child.map_err(|error| StartError(format!("cannot start a process: {error}")))?;
        let (stop, ending) = (self.stop.clone(), self.ending);
        let exit = async move {
            let exit = exit_of(child, stop, ending).await;
            drop(released);
            exit
        };
        Ok(StartedFactory { name, exit: Some(Box::pin(exit)) })
    }
}

impl ProcessStarter {
    /// A state directory of the pool that no process uses.
    fn free_state(&self, pool: &PoolName) -> Result<PathBuf, StartError> {
        let pools = self.children.data.join("pools").join(pool.as_str());
        let mut taken = self.taken.lock();
        for number in 1_u32.. {
            let state = pools.join(number.to_string());
            let refused =
                |error: &dyn std::fmt::Display| StartError(format!("cannot use {}: {error}", state.display()));
            if taken.contains(&state) {
                continue;
            }
            sandbox::make_private_folder(&state).map_err(|error| refused(&error))?;
            // One of an earlier scaler may still finish its jobs there.
            let hold = StateDir::new(&state).and_then(|state| state.hold()).map_err(|error| refused(&error))?;
            if hold.is_some() {
                taken.insert(state.clone());
                return Ok(state);
            }
        }
        Err(StartError("there is no free state directory".to_owned()))
    }
}

/// Makes a state directory available again when its process has ended.
struct ReleaseOnDrop {
    taken: Arc<Mutex<BTreeSet<PathBuf>>>,
    state: PathBuf,
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        self.taken.lock().remove(&self.state);
    }
}

/// Waits until a factory process has ended; at the stop it is told to.
async fn exit_of(mut child: Child, stop: CancellationToken, ending: ChildEnding) -> FactoryExit {
    // Waiting for a child closes its standard input, unless another owner has taken it.
    let parent_watch = child.stdin.take();
    let ended = tokio::select! {
        ended = child.wait() => ended,
        () = stop.cancelled() => {
            drop(parent_watch);
            match ending {
                ChildEnding::Drain => child.wait().await,
                ChildEnding::Farewell => match tokio::time::timeout(FAREWELL_MAX, child.wait()).await {
                    Ok(ended) => ended,
                    Err(_) => {
                        warn!("A factory does not stop, ending it");
                        child.kill().await.ok();
                        child.wait().await
                    }
                },
            }
        }
    };
    match ended {
        Ok(status) if status.success() => FactoryExit::Left,
        Ok(status) => FactoryExit::Failed(status.to_string()),
        Err(error) => FactoryExit::Failed(error.to_string()),
    }
}

/// Starts factories by a command, such as one that starts a machine.
struct CommandStarter {
    command: String,
    api: String,
    join: JoinTokens,
}

#[async_trait]
impl FactoryStarter for CommandStarter {
    async fn start(&self, pool: &PoolName) -> Result<StartedFactory, StartError> {
        let name = member_name(pool);
        let join = self.join.token(pool, &name).await?;
        let mut command = Command::new("sh");
        command.args(["-c", &self.command]).env("GIGA_POOL", pool.as_str()).env("GIGA_FACTORY", name.as_str());
        command.env("GIGA_API", &self.api).env("GIGA_JOIN", join).env_remove("GIGA_TOKEN");
        let child = command.stdin(Stdio::null()).kill_on_drop(true).status();
        let failed = |why: String| StartError(format!("`{}` failed: {why}", self.command));
        match tokio::time::timeout(COMMAND_MAX, child).await {
            // The machine joins by itself; how its factory ends is not seen here.
            Ok(Ok(status)) if status.success() => Ok(StartedFactory { name, exit: None }),
            Ok(Ok(status)) => Err(failed(status.to_string())),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(format!("it took longer than {} s", COMMAND_MAX.as_secs()))),
        }
    }
}

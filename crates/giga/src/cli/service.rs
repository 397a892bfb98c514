//! Arguments of the commands that run until they are stopped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use domain::{Capability, FactoryId, PoolName};

use crate::cli::GlobalArgs;
use crate::compose::ParentWatch;
use crate::config::Overrides;

/// Arguments of `serve`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// Store: `sqlite` (in the data directory) or postgres://user@host/database; use GIGA_STORE for a URL with a password
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<String>,
    /// Broker: `embedded`, or `nats://host:4222` for factories that receive from it; use GIGA_BROKER for a password
    #[arg(long, value_name = "BROKER")]
    pub(crate) broker: Option<String>,
    /// Address to listen on; other than loopback requires TLS or --behind-proxy
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// TLS certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// TLS private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A reverse proxy terminates TLS
    #[arg(long)]
    pub(crate) behind_proxy: bool,
    /// Host name that clients use for the coordinator; repeatable
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Run as one of several coordinators on a PostgreSQL database; they reach this one at URL
    #[arg(long, value_name = "URL")]
    pub(crate) advertise: Option<String>,
    /// Start although acknowledged data is lost: the database is missing, older than its record, or of another store.
    /// Leases are fenced
    #[arg(long)]
    pub(crate) accept_data_loss: bool,
    /// Stop at the end of standard input.
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

impl ServeArgs {
    /// Whether it stops together with its parent process.
    pub(crate) fn parent_watch(&self) -> ParentWatch {
        if self.until_stdin_closes { ParentWatch::Stdin } else { ParentWatch::None }
    }

    pub(super) fn overrides(&self) -> Overrides {
        Overrides {
            store: self.store.clone(),
            broker: self.broker.clone(),
            listen: self.listen,
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            behind_proxy: self.behind_proxy.then_some(true),
            hosts: given(&self.hosts),
            advertise: self.advertise.clone(),
            accept_data_loss: self.accept_data_loss,
            ..Overrides::default()
        }
    }
}

/// Arguments of `up`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct UpArgs {
    /// Run sample jobs with a built-in repository and engine
    #[arg(long)]
    pub(crate) demo: bool,
    /// Start factories on demand, at most MAX, and retire idle ones, instead of running one factory all the time
    #[arg(long, value_name = "MAX", num_args = 0..=1, default_missing_value = "3", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) pool: Option<u32>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// Arguments of `scaler`.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("how").required(true).args(["process", "command", "grpc"]),
    after_help = "\
A scaler starts the factories that the pools of a coordinator need, and never stops one: the coordinator tells idle
factories to leave. Ctrl-C drains the factories that it started with --process; a second one leaves them to it.
While the coordinator does not answer, its last answer holds.

The command of --command gets GIGA_POOL, the name to use as GIGA_FACTORY, GIGA_API, and a one-time GIGA_JOIN."
)]
pub(crate) struct ScalerArgs {
    /// Run factories as processes on this machine
    #[arg(long)]
    pub(crate) process: bool,
    /// Run this shell command for each missing factory, such as one that starts a machine
    #[arg(long, value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Answer KEDA on this address, as its external scaler (a build with the feature `scaler-grpc`)
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) grpc: Option<SocketAddr>,
    /// Only this pool; repeatable (default: all pools)
    #[arg(long = "pool", value_name = "NAME")]
    pub(crate) pools: Vec<PoolName>,
}

/// Arguments of `factory run`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FactoryRunArgs {
    /// Enrol with this one-time token from `giga token create --join`; prefer GIGA_JOIN
    #[arg(long, value_name = "TOKEN")]
    join: Option<String>,
    /// Name of the factory (default: the host name; with --pool: the pool and a random suffix)
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<FactoryId>,
    /// Run as a factory of this pool; the coordinator ends it when it is idle
    #[arg(long, value_name = "NAME")]
    pub(crate) pool: Option<PoolName>,
    /// Seats: number of jobs that run at the same time
    #[arg(long, value_name = "N")]
    pub(crate) seats: Option<u32>,
    /// State directory for mirrors, worktrees and records
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Directory with repositories
    #[arg(long, value_name = "DIR")]
    pub(crate) repo_base: Option<PathBuf>,
    /// Additional capability, such as gpu:l4; repeatable
    #[arg(long = "capability", value_name = "FAMILY:VALUE")]
    pub(crate) capabilities: Vec<Capability>,
    /// Stop at the end of standard input.
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
    /// Drain at the end of standard input.
    #[arg(long, hide = true, conflicts_with = "until_stdin_closes")]
    drain_when_stdin_closes: bool,
}

impl FactoryRunArgs {
    /// The one-time token: from the flag, or from the environment, which other users cannot read.
    pub(crate) fn join(&self) -> Option<String> {
        self.join.clone().or_else(|| std::env::var("GIGA_JOIN").ok()).filter(|token| !token.is_empty())
    }

    /// Whether it stops together with its parent process.
    pub(crate) fn parent_watch(&self) -> ParentWatch {
        match (self.until_stdin_closes, self.drain_when_stdin_closes) {
            (true, _) => ParentWatch::Stdin,
            (_, true) => ParentWatch::Drain,
            (false, false) => ParentWatch::None,
        }
    }

    pub(super) fn overrides(&self) -> Overrides {
        let member = || self.pool.as_ref().map(crate::compose::member_name);
        Overrides {
            factory_name: self.name.clone().or_else(member),
            seats: self.seats,
            state: self.state.clone(),
            repo_base: self.repo_base.clone(),
            capabilities: given(&self.capabilities),
            ..Overrides::default()
        }
    }
}

/// Arguments of `local`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Each Markdown file in DIR/inbox is a job. The file moves when the stage of its job changes:
    inbox/     queued                       delete it to cancel the job, edit it to submit it again
    building/  an agent is working on it    delete it to cancel the job
    review/    in review
    testing/   verified, ready to ship      move it to shipped/ to merge it
    shipped/   merged, or done without a repository
    failed/    failed                       move it to inbox/ to try it again

Engines and repositories come from DIR/giga.toml, or the usual giga.toml. Everything else is kept in DIR/.giga;
other commands reach it with `--data DIR/.giga`. A job waits for another with `deps: [\"key:other.md\"]`.")]
pub(crate) struct LocalArgs {
    /// Folder of the queue; created if it does not exist, except with --once
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Exit when all jobs have finished
    #[arg(long)]
    pub(crate) once: bool,
    /// Ship verified jobs automatically
    #[arg(long)]
    pub(crate) ship: bool,
    /// Seats: number of jobs that run at the same time
    #[arg(long, value_name = "N")]
    pub(crate) seats: Option<u32>,
    /// Directory with repositories
    #[arg(long, value_name = "DIR")]
    pub(crate) repo_base: Option<PathBuf>,
    /// Start although acknowledged data is lost: the database is missing or older than its record
    #[arg(long)]
    pub(crate) accept_data_loss: bool,
}

/// The data directory of a folder queue.
pub(crate) fn queue_data(dir: &Path) -> PathBuf {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()).join(".giga")
}

/// Uses the queue's own giga.toml if there is one, and always its data directory.
pub(super) fn queue_global(dir: &Path, given: &GlobalArgs) -> GlobalArgs {
    let own = Some(dir.join("giga.toml")).filter(|own| own.is_file());
    let is_named = std::env::var_os("GIGA_CONFIG").is_some_and(|name| !name.is_empty());
    let config = given.config.clone().or_else(|| own.filter(|_| !is_named));
    GlobalArgs { config, data: Some(queue_data(dir)), api: None, token: None, ..given.clone() }
}

impl LocalArgs {
    /// The global flags for the queue.
    pub(super) fn global(&self, given: &GlobalArgs) -> GlobalArgs {
        queue_global(&self.dir, given)
    }

    pub(super) fn overrides(&self) -> Overrides {
        Overrides {
            store: Some("sqlite".to_owned()),
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            seats: self.seats,
            state: Some(queue_data(&self.dir).join("factory")),
            repo_base: self.repo_base.clone(),
            accept_data_loss: self.accept_data_loss,
            ..Overrides::default()
        }
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "use a numeric IP address and port, such as 127.0.0.1:7878".to_owned())
}

fn given<T: Clone>(values: &[T]) -> Option<Vec<T>> {
    (!values.is_empty()).then(|| values.to_vec())
}

//! The arguments of commands that stay: a coordinator, a factory, a fleet, a folder queue.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use domain::{Capability, FactoryId};

use crate::cli::GlobalArgs;
use crate::compose::ParentWatch;
use crate::config::Overrides;

/// Arguments of `serve`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// Keep the fleet in `sqlite` (in the data folder) or in postgres://user@host/database; a password is better given in GIGA_STORE
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<String>,
    /// Listen here; off this machine it takes TLS or --behind-proxy
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// The certificate chain to serve with, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A proxy in front of the coordinator speaks TLS
    #[arg(long)]
    pub(crate) behind_proxy: bool,
    /// A name that clients may call the coordinator by; can be repeated
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Start although acknowledged work is missing from the store: a database that is gone, older than its record, or
    /// another store's. Factories that hold jobs are fenced
    #[arg(long)]
    pub(crate) accept_data_loss: bool,
    /// End when standard input does.
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

impl ServeArgs {
    /// Whether it ends with whoever started it.
    pub(crate) fn lifeline(&self) -> ParentWatch {
        if self.until_stdin_closes { ParentWatch::Stdin } else { ParentWatch::None }
    }

    pub(super) fn overrides(&self) -> Overrides {
        Overrides {
            store: self.store.clone(),
            listen: self.listen,
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            behind_proxy: self.behind_proxy.then_some(true),
            hosts: given(&self.hosts),
            accept_data_loss: self.accept_data_loss,
            ..Overrides::default()
        }
    }
}

/// Arguments of `up`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct UpArgs {
    /// Use a repository and an engine that come with the program, and run a job on them
    #[arg(long)]
    pub(crate) demo: bool,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// Arguments of `factory`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FactoryArgs {
    /// Enrol with this one-time token, from `giga token create --join`; GIGA_JOIN does the same
    #[arg(long, value_name = "TOKEN")]
    join: Option<String>,
    /// The factory's name; the machine's when absent
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<FactoryId>,
    /// How many jobs to run at one time
    #[arg(long, value_name = "N")]
    pub(crate) seats: Option<u32>,
    /// Keep mirrors, worktrees and records in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Offer the repositories in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) repo_base: Option<PathBuf>,
    /// Offer this too, such as gpu:l4; can be repeated
    #[arg(long = "capability", value_name = "FAMILY:VALUE")]
    pub(crate) capabilities: Vec<Capability>,
    /// End when standard input does.
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

impl FactoryArgs {
    /// The one-time token: from the flag, or from the environment, which others on the machine cannot read.
    pub(crate) fn join(&self) -> Option<String> {
        self.join.clone().or_else(|| std::env::var("GIGA_JOIN").ok()).filter(|token| !token.is_empty())
    }

    /// Whether it ends with whoever started it.
    pub(crate) fn lifeline(&self) -> ParentWatch {
        if self.until_stdin_closes { ParentWatch::Stdin } else { ParentWatch::None }
    }

    pub(super) fn overrides(&self) -> Overrides {
        Overrides {
            factory_name: self.name.clone(),
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
A Markdown file in DIR/inbox is a job. It moves as its job does:
    inbox/     waits                    delete it to cancel the job, change it to submit it anew
    building/  an agent is at work      delete it to cancel the job
    review/    people look at the work
    testing/   done, can be merged      move it to shipped/ to have it merged
    shipped/   merged, or done without a repository
    failed/    ended badly              move it to inbox/ to have it tried again

Engines and repositories come from DIR/giga.toml, or the usual giga.toml. Everything else is kept in DIR/.giga;
other commands reach it with `--data DIR/.giga`. A job waits for another with `deps: [\"key:other.md\"]`.")]
pub(crate) struct LocalArgs {
    /// The folder of the queue; made when it is not there, unless with --once
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Return when everything in it has ended
    #[arg(long)]
    pub(crate) once: bool,
    /// Merge by itself what is ready, for as long as this runs
    #[arg(long)]
    pub(crate) ship: bool,
    /// How many jobs to run at one time
    #[arg(long, value_name = "N")]
    pub(crate) seats: Option<u32>,
    /// Offer the repositories in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) repo_base: Option<PathBuf>,
    /// Start although acknowledged work is missing from the store: a database that is gone or older than its record
    #[arg(long)]
    pub(crate) accept_data_loss: bool,
}

impl LocalArgs {
    /// The queue's own folder for everything that people need not see.
    fn data(&self) -> PathBuf {
        let dir = std::path::absolute(&self.dir).unwrap_or_else(|_| self.dir.clone());
        dir.join(".giga")
    }

    /// The settings are the queue's where it has some; the data always is.
    pub(super) fn global(&self, given: &GlobalArgs) -> GlobalArgs {
        let own = Some(self.dir.join("giga.toml")).filter(|own| own.is_file());
        let is_named = std::env::var_os("GIGA_CONFIG").is_some_and(|name| !name.is_empty());
        let config = given.config.clone().or_else(|| own.filter(|_| !is_named));
        GlobalArgs { config, data: Some(self.data()), api: None, token: None, ..given.clone() }
    }

    pub(super) fn overrides(&self) -> Overrides {
        Overrides {
            store: Some("sqlite".to_owned()),
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            seats: self.seats,
            state: Some(self.data().join("factory")),
            repo_base: self.repo_base.clone(),
            accept_data_loss: self.accept_data_loss,
            ..Overrides::default()
        }
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an address in figures and a port, such as 127.0.0.1:7878".to_owned())
}

fn given<T: Clone>(values: &[T]) -> Option<Vec<T>> {
    (!values.is_empty()).then(|| values.to_vec())
}

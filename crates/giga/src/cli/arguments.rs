//! The arguments of single commands.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use domain::{Capability, FactoryId, Mode, ProductId, RepoName, StageName};

use crate::cli::GlobalArgs;
use crate::config::{Overrides, Span};
use crate::fleet::Lifeline;

/// Arguments of `serve`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// Keep the fleet in `sqlite` (in the data folder) or in postgres://user@host/database; a password is better given in GIGA_STORE
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<String>,
    /// Listen here; off this machine it takes TLS or --behind-proxy
    #[arg(long, value_name = "ADDRESS")]
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
    /// End when standard input does.
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

impl ServeArgs {
    /// Whether it ends with whoever started it.
    pub(crate) fn lifeline(&self) -> Lifeline {
        if self.until_stdin_closes { Lifeline::Stdin } else { Lifeline::None }
    }

    pub(super) fn overrides(&self) -> Overrides {
        Overrides {
            store: self.store.clone(),
            listen: self.listen,
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            behind_proxy: self.behind_proxy.then_some(true),
            hosts: given(&self.hosts),
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
    pub(crate) fn lifeline(&self) -> Lifeline {
        if self.until_stdin_closes { Lifeline::Stdin } else { Lifeline::None }
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
    testing/   done and verified        move it to shipped/ to have it merged
    shipped/   merged
    failed/    ended badly              move it to inbox/ to have it tried again

Engines and repositories come from DIR/giga.toml, or the usual giga.toml. Everything else is kept in DIR/.giga;
other commands reach it with `--data DIR/.giga`. A job waits for another with `deps: [\"key:other.md\"]`.")]
pub(crate) struct LocalArgs {
    /// The folder of the queue; made when it is not there
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Return when everything in it has ended
    #[arg(long)]
    pub(crate) once: bool,
    /// Merge by itself what is ready
    #[arg(long)]
    pub(crate) ship: bool,
    /// How many jobs to run at one time
    #[arg(long, value_name = "N")]
    pub(crate) seats: Option<u32>,
    /// Offer the repositories in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) repo_base: Option<PathBuf>,
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
            ..Overrides::default()
        }
    }
}

/// Arguments of `submit`.
#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// Manifests; `-` reads one from standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Submit once: the same key gives back the same job
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Treat unknown keys in the manifest as errors
    #[arg(long)]
    pub(crate) strict: bool,
    /// Say where the jobs could run, and submit nothing
    #[arg(long, conflicts_with_all = ["wait", "batch"])]
    pub(crate) dry_run: bool,
    /// Wait until the jobs have come to rest
    #[arg(long)]
    pub(crate) wait: bool,
    /// Submit everything in one request; one bad manifest stops none of the others
    #[arg(long)]
    pub(crate) batch: bool,
}

/// Arguments of `wait`.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Ids, or their first characters (at least 8)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Give up after this long, such as 90s or 10m
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Span>,
    /// What to wait for
    #[arg(long, value_enum, default_value_t = Until::Rest)]
    pub(crate) until: Until,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Until {
    /// The work is done and verified
    Testing,
    /// It is merged
    Shipped,
    /// Nothing happens any more unless a person acts
    Rest,
}

/// Arguments of `jobs`.
#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    /// Only jobs in this stage; can be repeated
    #[arg(long = "stage", value_name = "STAGE")]
    pub(crate) stages: Vec<StageName>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) limit: u16,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The job's id, or its first characters (at least 8)
    pub(crate) id: String,
    /// Go on while the job runs, into its next run if there is one
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Of the run with this epoch; of the latest when absent
    #[arg(long, value_name = "N")]
    pub(crate) epoch: Option<u64>,
    /// Leave control characters in: they can change your terminal
    #[arg(long)]
    pub(crate) raw: bool,
}

/// Arguments of `factories`.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct FactoriesArgs {
    /// Let this factory finish what it has and take nothing new
    #[arg(long, value_name = "NAME")]
    pub(crate) drain: Option<FactoryId>,
    /// Let this factory take work again
    #[arg(long, value_name = "NAME")]
    pub(crate) resume: Option<FactoryId>,
    /// Forget factories that have gone silent
    #[arg(long)]
    pub(crate) prune: bool,
    /// Give this login's engines work again before its usage window resets
    #[arg(long, value_name = "LOGIN")]
    pub(crate) reopen: Option<String>,
}

/// Arguments of `runs`.
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// The job's id, or its first characters (at least 8)
    pub(crate) id: String,
    /// Show what backs this run: verify output, commits, the engine's own ending
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<u32>,
    /// Show the change as well
    #[arg(long, requires = "run")]
    pub(crate) diff: bool,
}

/// Arguments of `cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// Ids, or their first characters (at least 8)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Why, for the record
    #[arg(short, long, value_name = "WHY")]
    pub(crate) message: Option<String>,
}

/// Arguments of `requeue`.
#[derive(Debug, Args)]
pub(crate) struct RequeueArgs {
    /// Ids, or their first characters (at least 8)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Throw saved work away and begin again
    #[arg(long)]
    pub(crate) fresh: bool,
}

/// Arguments of `ship`.
#[derive(Debug, Args)]
pub(crate) struct ShipArgs {
    /// Ids, or their first characters (at least 8)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Wait until they are merged
    #[arg(long)]
    pub(crate) wait: bool,
}

/// Arguments of `products set`.
#[derive(Debug, Args)]
pub(crate) struct ProductSetArgs {
    /// The product
    pub(crate) name: ProductId,
    /// Start nothing new
    #[arg(long, conflicts_with = "resume")]
    pub(crate) pause: bool,
    /// Start work again
    #[arg(long)]
    pub(crate) resume: bool,
    /// Ship by itself what is ready, or not
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) auto_ship: Option<bool>,
    /// The repositories it owns, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) repos: Option<Vec<RepoName>>,
    /// Its share of the seats, relative to other products
    #[arg(long, value_name = "N")]
    pub(crate) weight: Option<u32>,
}

/// Arguments of `mode`.
#[derive(Debug, Args)]
#[command(after_help = "\
Modes:
    push  the coordinator offers each job to a factory (the default)
    poll  factories ask for work on a timer
    gate  factories ask for work when the queue has moved

Without --product it is about every product that has no mode of its own.")]
pub(crate) struct ModeArgs {
    /// Switch to this mode: push, poll or gate; what is under way goes on as it began
    #[arg(value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// Have the product given with --product follow the others again
    #[arg(long, conflicts_with = "mode")]
    pub(crate) follow: bool,
}

/// Arguments of `token create`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("kind").required(true).args(["role", "join"]))]
pub(crate) struct TokenCreateArgs {
    /// What a person or a program may do with it
    #[arg(long, value_enum)]
    pub(crate) role: Option<RoleName>,
    /// A one-time token that enrols one factory
    #[arg(long)]
    pub(crate) join: bool,
    /// The name that the factory must take
    #[arg(long, value_name = "NAME", requires = "join")]
    pub(crate) factory: Option<FactoryId>,
    /// Only these products, separated by commas; all when absent
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) products: Vec<ProductId>,
    /// What the factory may offer, separated by commas; anything when absent
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', requires = "join")]
    pub(crate) capabilities: Vec<Capability>,
    /// Whose it is, for people
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// How long it lives, such as 12h or 30d; for ever when absent, one hour for --join
    #[arg(long, value_name = "TIME")]
    pub(crate) ttl: Option<Span>,
}

/// The roles of people and programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// Look
    Viewer,
    /// Submit and steer jobs
    Operator,
    /// Everything
    Admin,
}

/// Arguments of `events`.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Only of this job: its id, or its first characters (at least 8)
    pub(crate) id: Option<String>,
    /// Go on as things happen
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// At most this many of what has happened already
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
}

/// Arguments of `gc`.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Say what would go, and why the rest stays, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to write, or to check; a name with the time in it when absent
    #[arg(value_name = "FILE", required_if_eq("verify", "true"))]
    pub(crate) file: Option<PathBuf>,
    /// Check a backup instead, and say what is in it
    #[arg(long)]
    pub(crate) verify: bool,
    /// The store itself, while no coordinator runs on it: what `giga serve --store` takes
    #[arg(long, value_name = "STORE", conflicts_with = "verify")]
    pub(crate) store: Option<String>,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// A file that `giga backup` wrote
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// The store itself, while no coordinator runs on it: what `giga serve --store` takes
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<String>,
}

fn given<T: Clone>(values: &[T]) -> Option<Vec<T>> {
    (!values.is_empty()).then(|| values.to_vec())
}

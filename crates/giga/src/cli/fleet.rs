//! Arguments of the commands that manage the fleet: factories, products, credentials, modes, tokens.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use domain::{
    BudgetPeriod, Capability, EngineName, FactoryId, Mode, PoolName, ProductId, ProfileName, ProfileRef, RepoName,
    RunningWork, ScoreWeights, WebhookName,
};

use super::FactoryRunArgs;
use crate::config::HumanDuration;

/// The verbs of `factory`.
#[derive(Debug, Subcommand)]
pub(crate) enum FactoryCommand {
    /// Run a factory on this machine
    Run(FactoryRunArgs),
    /// List factories
    List,
    /// Show one factory
    Show {
        /// Name of the factory
        #[arg(value_name = "NAME")]
        id: FactoryId,
    },
    /// Stop giving new jobs to a factory; running jobs finish
    Drain {
        /// Name of the factory
        #[arg(value_name = "NAME")]
        id: FactoryId,
    },
    /// Give jobs to a drained factory again
    Resume {
        /// Name of the factory
        #[arg(value_name = "NAME")]
        id: FactoryId,
    },
    /// Remove stale factories
    Prune,
    /// Remove a factory and revoke its tokens; its jobs are requeued
    Remove {
        /// Name of the factory
        #[arg(value_name = "NAME")]
        id: FactoryId,
    },
}

/// The verbs of `pool`.
#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// List pools, and how many factories each should have
    List,
    /// Show one pool
    Show {
        /// Name of the pool
        name: PoolName,
    },
    /// Declare a pool, or change it; settings that are not given stay
    Set(PoolSetArgs),
    /// Remove a pool; its factories finish their jobs and leave
    Remove {
        /// Name of the pool
        name: PoolName,
    },
}

/// Arguments of `pool set`.
#[derive(Debug, Args)]
#[command(after_help = "\
A pool states what its factories will offer when they have started: jobs that fit wait for one instead of being
unplaceable. `giga scaler` starts them. Lists replace the former ones; an empty one (--repos '') removes all.")]
pub(crate) struct PoolSetArgs {
    /// Name of the pool; created if it does not exist
    pub(crate) name: PoolName,
    /// The most factories; required for a new pool
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<u32>,
    /// Factories that run even without work
    #[arg(long, value_name = "N")]
    pub(crate) warm: Option<u32>,
    /// Seats of one factory
    #[arg(long, value_name = "N")]
    pub(crate) seats: Option<u32>,
    /// Engines of its factories, comma-separated; required for a new pool
    #[arg(long, value_name = "NAMES", value_parser = list_of::<EngineName>)]
    pub(crate) engines: Option<NameSet<EngineName>>,
    /// Capabilities of its factories, comma-separated
    #[arg(long, value_name = "CAPABILITIES", value_parser = list_of::<Capability>)]
    pub(crate) capabilities: Option<NameSet<Capability>>,
    /// Repositories of its factories, comma-separated
    #[arg(long, value_name = "NAMES", value_parser = list_of::<RepoName>)]
    pub(crate) repos: Option<NameSet<RepoName>>,
    /// Whether its factories can clone any repository
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) clones: Option<bool>,
    /// Products that its factories work for, comma-separated (default: all)
    #[arg(long, value_name = "NAMES", value_parser = list_of::<ProductId>)]
    pub(crate) products: Option<NameSet<ProductId>>,
    /// Relative cost of a seat, 0 to 100; the cheapest pool that fits starts a factory
    #[arg(long, value_name = "COST")]
    pub(crate) cost: Option<u8>,
    /// How long a factory may take to join
    #[arg(long, value_name = "TIME")]
    pub(crate) start_within: Option<HumanDuration>,
    /// How long a factory may be idle before it is told to leave
    #[arg(long, value_name = "TIME")]
    pub(crate) idle_after: Option<HumanDuration>,
}

/// Names, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NameSet<T>(pub(crate) BTreeSet<T>);

fn list_of<T: FromStr<Err: std::fmt::Display> + Ord>(text: &str) -> Result<NameSet<T>, String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let names: Result<BTreeSet<T>, _> = names.map(str::parse).collect();
    names.map(NameSet).map_err(|error| error.to_string())
}

/// The verbs of `product`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProductCommand {
    /// List products
    List,
    /// Show one product
    Show {
        /// Name of the product
        name: ProductId,
    },
    /// Create a product or change its settings
    Set(ProductSetArgs),
    /// Start no new jobs of a product; its budget says what happens to running jobs
    Pause {
        /// Name of the product
        name: ProductId,
        /// Why; shown wherever jobs wait for it
        #[arg(short = 'm', long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Start jobs of a paused product again
    Resume {
        /// Name of the product
        name: ProductId,
    },
}

/// Arguments of `product set`.
#[derive(Debug, Args)]
pub(crate) struct ProductSetArgs {
    /// Name of the product; created if it does not exist
    pub(crate) name: ProductId,
    /// Ship verified jobs automatically
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) auto_ship: Option<bool>,
    /// Ship only on `giga ship` (the default)
    #[arg(long, conflicts_with = "auto_ship")]
    pub(crate) no_auto_ship: bool,
    /// Repositories of the product, comma-separated
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) repos: Option<Vec<RepoName>>,
    /// Share of the seats, relative to other products
    #[arg(long, value_name = "N")]
    pub(crate) weight: Option<u32>,
    /// Limit the concurrent jobs of a repository in the fleet (`none` removes the limit; can be repeated)
    #[arg(long, value_name = "REPO=N")]
    pub(crate) repo_seats: Vec<RepoSeats>,
    /// Weight of a term of the placement score: fit, affinity, idle, cost, health or wait (`default` resets it; can be repeated)
    #[arg(long = "score-weight", value_name = "TERM=WEIGHT")]
    pub(crate) score_weights: Vec<TermWeight>,
}

/// A limit of a repository: `notes=2`, `notes=none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepoSeats {
    pub(crate) repo: RepoName,
    pub(crate) seats: Option<u32>,
}

impl FromStr for RepoSeats {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((repo, seats)) = text.rsplit_once('=') else {
            return Err("write a repository and a number, such as `notes=2`".to_owned());
        };
        let repo = repo.parse().map_err(|error: domain::NameError| error.to_string())?;
        let seats = match seats {
            "none" => None,
            seats => Some(seats.parse().map_err(|_| format!("`{seats}` is neither a number nor `none`"))?),
        };
        Ok(Self { repo, seats })
    }
}

/// A weight of a term of the score: `affinity=2`, `health=default`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TermWeight {
    pub(crate) term: &'static str,
    pub(crate) weight: Option<f64>,
}

impl FromStr for TermWeight {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, weight) = text.split_once('=').ok_or("write a term and a weight, such as `affinity=2`")?;
        let term = ScoreWeights::TERMS.into_iter().find(|term| *term == name);
        let term = term.ok_or_else(|| format!("`{name}` is no term: use one of {}", ScoreWeights::TERMS.join(", ")))?;
        let weight = match weight {
            "default" => None,
            weight => {
                let number = weight.parse().ok().filter(|number: &f64| number.is_finite());
                Some(number.ok_or_else(|| format!("`{weight}` is neither a number nor `default`"))?)
            }
        };
        Ok(Self { term, weight })
    }
}

/// The verbs of `budget`.
#[derive(Debug, Subcommand)]
pub(crate) enum BudgetCommand {
    /// Show what products may spend and have spent
    Show {
        /// Name of the product; all products when absent
        name: Option<ProductId>,
    },
    /// Change the budget of a product; settings that are not given stay
    Set(BudgetSetArgs),
    /// Enforce ceilings, or stop enforcing them
    Enforce {
        /// `on` or `off`
        #[arg(value_name = "on|off", hide_possible_values = true)]
        switch: Switch,
    },
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// On
    On,
    /// Off
    Off,
}

impl Switch {
    /// Whether it is on.
    pub(crate) fn is_on(self) -> bool {
        self == Self::On
    }
}

/// Arguments of `budget set`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true).args(["ceiling", "no_ceiling", "period", "per_job", "on_pause"]))]
pub(crate) struct BudgetSetArgs {
    /// Name of the product
    pub(crate) name: ProductId,
    /// The most that it may spend per period, in US dollars
    #[arg(long, value_name = "USD", value_parser = dollars, allow_negative_numbers = true, conflicts_with = "no_ceiling")]
    pub(crate) ceiling: Option<f64>,
    /// Remove the ceiling
    #[arg(long)]
    pub(crate) no_ceiling: bool,
    /// Period of the ceiling, in UTC
    #[arg(long, value_enum)]
    pub(crate) period: Option<PeriodName>,
    /// What a job without `budget.usd` reserves while it runs, in US dollars
    #[arg(long, value_name = "USD", value_parser = dollars, allow_negative_numbers = true)]
    pub(crate) per_job: Option<f64>,
    /// What happens to running jobs when the product is paused
    #[arg(long, value_enum)]
    pub(crate) on_pause: Option<RunningWorkName>,
}

/// An amount in US dollars. Text such as `nan` is a number to Rust, and none to the API.
fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.parse().ok().filter(|amount: &f64| amount.is_finite() && *amount >= 0.0);
    amount.ok_or_else(|| format!("`{text}` is not an amount: write 50 or 12.50"))
}

/// The periods of a ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PeriodName {
    /// From midnight to midnight
    Day,
    /// A calendar month
    Month,
    /// All time
    Total,
}

impl From<PeriodName> for BudgetPeriod {
    fn from(name: PeriodName) -> Self {
        match name {
            PeriodName::Day => Self::Day,
            PeriodName::Month => Self::Month,
            PeriodName::Total => Self::Total,
        }
    }
}

/// What happens to running jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunningWorkName {
    /// They finish
    Finish,
    /// They save their work and return to the queue
    Release,
    /// They are stopped and return to the queue
    Stop,
}

impl From<RunningWorkName> for RunningWork {
    fn from(name: RunningWorkName) -> Self {
        match name {
            RunningWorkName::Finish => Self::Finish,
            RunningWorkName::Release => Self::Release,
            RunningWorkName::Stop => Self::Stop,
        }
    }
}

/// The verbs of `profile`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// List profiles
    List,
    /// Show one profile
    Show(ProfileShowArgs),
    /// Create a profile, or its next version, from Markdown files
    Create(ProfileCreateArgs),
}

/// Arguments of `profile show`.
#[derive(Debug, Args)]
pub(crate) struct ProfileShowArgs {
    /// Name of the profile, with @ and a version for an older one
    #[arg(value_name = "NAME[@VERSION]")]
    pub(crate) profile: ProfileRef,
    /// Print only its text, as it was created
    #[arg(long)]
    pub(crate) text: bool,
}

/// Arguments of `profile create`.
#[derive(Debug, Args)]
#[command(after_help = "\
Versions never change: a file with the text of the newest version creates none, any other text creates the next one.
Without --fleet the profile belongs to the product given with --product; with a token for all products, and no
product, it belongs to every product.")]
pub(crate) struct ProfileCreateArgs {
    /// Markdown files; - reads from standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Name of the profile (default: the file's name without .md)
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<ProfileName>,
    /// Make it usable by every product (needs an admin token)
    #[arg(long)]
    pub(crate) fleet: bool,
}

/// The verbs of `artifact`.
#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactCommand {
    /// List the artifacts of a job
    List {
        /// Job: its id, or the last characters of it
        #[arg(value_name = "JOB")]
        job: String,
    },
    /// Download an artifact, and check its digest
    Get(ArtifactGetArgs),
    /// Remove an artifact
    Remove {
        /// Artifact, as `giga artifact list` shows it
        #[arg(value_name = "ARTIFACT")]
        artifact: String,
    },
}

/// Arguments of `artifact get`.
#[derive(Debug, Args)]
pub(crate) struct ArtifactGetArgs {
    /// Artifact, as `giga artifact list` shows it
    #[arg(value_name = "ARTIFACT")]
    pub(crate) artifact: String,
    /// File to write, which must not exist; - for standard output (default: the last part of the artifact's name)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The verbs of `credential`.
#[derive(Debug, Subcommand)]
pub(crate) enum CredentialCommand {
    /// List credentials whose usage limit is reached
    List,
    /// Use a credential again before its usage limit resets
    Resume {
        /// Credential, as `giga credential list` shows it
        #[arg(value_name = "CREDENTIAL")]
        id: String,
    },
}

/// The verbs of `tracker`.
#[derive(Debug, Subcommand)]
pub(crate) enum TrackerCommand {
    /// List trackers, and the newest items that became jobs
    List,
    /// Send the status of a job to its item again
    Echo {
        /// Job id, or its last characters (at least 4)
        id: String,
    },
}

/// The verbs of `webhook`.
#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    /// List outgoing webhooks and what became of their deliveries
    List,
    /// Send a test delivery now
    Test {
        /// Webhook, as `giga webhook list` shows it
        name: WebhookName,
    },
}

/// Arguments of `mode`.
#[derive(Debug, Args)]
#[command(after_help = "\
Modes:
    push         the coordinator offers each job to a factory (the default)
    poll         factories poll for work at an interval
    gate         factories poll for work when the queue has changed
    shadow       factories poll, and `giga divergence` compares that with push
    self-select  jobs are announced to factories, which claim them by id

Without --product the mode applies to every product that has no mode of its own.
--preemption applies to the whole fleet.")]
pub(crate) struct ModeArgs {
    /// New mode: push, poll, gate, shadow or self-select; running jobs are not affected
    #[arg(value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// Remove the mode of the product given with --product, so that it uses the fleet's mode
    #[arg(long, conflicts_with = "mode")]
    pub(crate) follow: bool,
    /// Let critical jobs without a seat preempt jobs with `preemptible: true`: on or off
    #[arg(long, value_name = "on|off", value_parser = on_or_off, conflicts_with_all = ["mode", "follow", "product"])]
    pub(crate) preemption: Option<bool>,
}

/// Arguments of `divergence`.
#[derive(Debug, Args)]
#[command(after_help = "\
Compared are the products in mode `shadow`; with AQ_FLEET_SHADOW=1 at the coordinator all products that factories
poll for. `giga mode push` is safe after 24 hours with decisions, 1,000 decisions, at most 0.1 % divergent ones, and
no missing message. SAME and OTHER count claims by the factory that push mode would choose, and by another eligible
one; LAG is the median and the 99th percentile of the time that a message takes.")]
pub(crate) struct DivergenceArgs {
    /// Number of divergences to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) limit: usize,
}

fn on_or_off(given: &str) -> Result<bool, String> {
    match given {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected `on` or `off`".to_owned()),
    }
}

/// The verbs of `token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print its secret once
    Create(TokenCreateArgs),
    /// List tokens
    List,
    /// Revoke a token
    Revoke {
        /// Id of the token, as `giga token list` shows it
        id: String,
    },
}

/// Arguments of `token create`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("kind").required(true).args(["role", "join"]))]
pub(crate) struct TokenCreateArgs {
    /// Role of the user or program that uses the token
    #[arg(long, value_enum)]
    pub(crate) role: Option<RoleName>,
    /// Create a one-time token that enrols one factory
    #[arg(long)]
    pub(crate) join: bool,
    /// Name that the factory must use
    #[arg(long, value_name = "NAME", requires = "join")]
    pub(crate) factory: Option<FactoryId>,
    /// Create a join token for this pool: it enrols any number of its factories
    #[arg(long, value_name = "NAME", requires = "join")]
    pub(crate) pool: Option<PoolName>,
    /// Limit the token to these products, comma-separated (default: all)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) products: Vec<ProductId>,
    /// Capabilities that the factory may have, comma-separated (default: any)
    #[arg(long, value_name = "CAPABILITIES", value_delimiter = ',', requires = "join")]
    pub(crate) capabilities: Vec<Capability>,
    /// Label to recognise the token by
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// Person that the token belongs to: all tokens of one person are one reviewer and one author (default: the label)
    #[arg(long, value_name = "PERSON", conflicts_with = "join")]
    pub(crate) owner: Option<String>,
    /// The person's login on the forge: its approvals of pull requests count as votes
    #[arg(long, value_name = "LOGIN", conflicts_with = "join")]
    pub(crate) forge_login: Option<String>,
    /// Lifetime, such as 12h or 30d (default: never expires; with --join: 1h, except for a pool)
    #[arg(long, value_name = "TIME")]
    pub(crate) ttl: Option<HumanDuration>,
}

/// The roles of users and programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// Read everything, change nothing
    Viewer,
    /// Also submit, cancel, requeue and ship jobs
    Operator,
    /// Also manage factories, products, tokens and backups
    Admin,
}

#[cfg(test)]
mod tests {
    use super::*;

    // [S3] [S6]
    #[test]
    fn limits_and_weights_are_pairs() {
        let seats = |text: &str| text.parse::<RepoSeats>().map(|seats| (seats.repo.to_string(), seats.seats));
        let weight = |text: &str| text.parse::<TermWeight>().map(|term| (term.term, term.weight));

        assert_eq!(seats("acme/notes=2"), Ok(("acme/notes".to_owned(), Some(2))));
        assert_eq!(seats("notes=none"), Ok(("notes".to_owned(), None)));
        assert_eq!(weight("affinity=2.5"), Ok(("affinity", Some(2.5))));
        assert_eq!(weight("health=default"), Ok(("health", None)));
        for text in ["notes", "notes=", "notes=-1", "../x=1"] {
            assert!(seats(text).is_err(), "{text}");
        }
        for text in ["affinity", "speed=1", "affinity=", "affinity=x", "affinity=nan", "affinity=inf"] {
            assert!(weight(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_are_finite_and_not_negative() {
        assert_eq!(dollars("12.50"), Ok(12.5));
        for text in ["nan", "inf", "-5", "lots", "2,00"] {
            assert!(dollars(text).is_err(), "{text}");
        }
    }
}

//! The arguments of commands about the fleet: factories, products, modes, tokens.

use clap::{Args, ValueEnum};
use domain::{Capability, FactoryId, Mode, ProductId, RepoName};

use crate::config::HumanDuration;

/// Arguments of `factories`.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct FactoriesArgs {
    /// Let this factory finish what it has and take nothing new, until --resume
    #[arg(long, value_name = "NAME")]
    pub(crate) drain: Option<FactoryId>,
    /// Let this factory take work again after --drain
    #[arg(long, value_name = "NAME")]
    pub(crate) resume: Option<FactoryId>,
    /// Forget factories that have gone silent
    #[arg(long)]
    pub(crate) prune: bool,
    /// Give this login's engines work again before its usage window resets
    #[arg(long, value_name = "LOGIN")]
    pub(crate) reopen: Option<String>,
}

/// Arguments of `products set`.
#[derive(Debug, Args)]
pub(crate) struct ProductSetArgs {
    /// The product
    pub(crate) name: ProductId,
    /// Start nothing new, until --resume
    #[arg(long, conflicts_with = "resume")]
    pub(crate) pause: bool,
    /// Start work again after --pause
    #[arg(long)]
    pub(crate) resume: bool,
    /// Ship by itself what is ready, until --no-auto-ship
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) auto_ship: Option<bool>,
    /// Ship only when somebody says `giga ship`, which is the default
    #[arg(long, conflicts_with = "auto_ship")]
    pub(crate) no_auto_ship: bool,
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
    pub(crate) ttl: Option<HumanDuration>,
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

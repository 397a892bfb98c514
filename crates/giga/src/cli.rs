//! The words of the command line.

mod aliases;
mod bench;
mod fleet;
mod jobs;
#[cfg(test)]
mod reference;
mod serving;
mod upkeep;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::config::Overrides;

pub(crate) use aliases::meant;
pub(crate) use bench::{BenchArgs, BenchCommand, BenchStore};
pub(crate) use fleet::{FactoriesArgs, ModeArgs, ProductSetArgs, RoleName, TokenCreateArgs};
pub(crate) use jobs::{
    CancelArgs, DeadLettersCommand, EventsArgs, JobsArgs, LogsArgs, RequeueArgs, RunsArgs, ShipArgs, SubmitArgs, Until,
    WaitArgs,
};
pub(crate) use serving::{FactoryArgs, LocalArgs, ServeArgs, UpArgs};
pub(crate) use upkeep::{BackupArgs, GcArgs, RestoreArgs};

const EXIT_CODES: &str = "\
Exit codes:
    0  it worked
    1  the thing asked for failed: a job, a manifest, a check of the doctor
    2  the command line or the configuration is wrong
    3  the coordinator refused
    4  the coordinator cannot be reached, or cannot answer now
    5  there is no such thing
    6  there is no token, or it does not allow this
  124  `wait` ran out of time

Data goes to standard output, everything else to standard error.
Settings come from flags, GIGA_* variables and giga.toml: `giga doctor` shows which are in force.";

/// Runs coding agents on a fleet of machines.
#[derive(Debug, Parser)]
#[command(
    name = "giga",
    version,
    after_help = EXIT_CODES,
    max_term_width = 100,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    subcommand_value_name = "COMMAND"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Read this file instead of giga.toml in the working directory or the configuration directory
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Keep data in this folder
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Talk to the coordinator at this address
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) api: Option<String>,
    /// Show this token; other users of the machine can see it here, so prefer GIGA_TOKEN or a file
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Work for this product
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) product: Option<String>,
    /// Print JSON: one document, or one per line for streams
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing on standard error but errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Never use colours
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Log more: -v for debug, -vv for everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a giga.toml and a sample job into the working directory
    Init,
    /// Run a coordinator and a factory on this machine
    Up(UpArgs),
    /// Run a coordinator
    Serve(ServeArgs),
    /// Run a factory that works for a coordinator
    Factory(FactoryArgs),
    /// Run the jobs in a folder, on this machine alone
    Local(LocalArgs),
    /// Submit jobs
    Submit(SubmitArgs),
    /// Wait until jobs have come to rest
    Wait(WaitArgs),
    /// List jobs, newest first
    Jobs(JobsArgs),
    /// Show one job
    Job {
        /// The job's id, or its last characters (at least 4)
        id: String,
    },
    /// List a job's runs, or show what backs one of them
    Runs(RunsArgs),
    /// Show what a job's engine prints
    Logs(LogsArgs),
    /// Say why a job is where it is, and which factories could run it
    Explain {
        /// The job's id, or its last characters (at least 4)
        id: String,
    },
    /// List factories, or take one out of service
    Factories(FactoriesArgs),
    /// Stop jobs for good
    Cancel(CancelArgs),
    /// Send failed jobs round again, or answer the question of one
    Requeue(RequeueArgs),
    /// Merge the work of jobs that are ready
    Ship(ShipArgs),
    /// List what needs a person
    Alerts,
    /// List dead-lettered jobs, or dismiss some
    DeadLetters {
        #[command(subcommand)]
        command: Option<DeadLettersCommand>,
    },
    /// List products, or change one
    Products {
        #[command(subcommand)]
        command: Option<ProductsCommand>,
    },
    /// Show how work reaches factories, or switch it
    Mode(ModeArgs),
    /// Make, list and revoke tokens
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Show what happens in the fleet
    Events(EventsArgs),
    /// Remove what finished jobs left on this machine and in its repositories
    Gc(GcArgs),
    /// Measure what the fleet can do on this machine
    Bench(BenchArgs),
    /// Copy everything that the coordinator knows into one file, while it works
    Backup(BackupArgs),
    /// Replace everything that the coordinator knows with a backup
    Restore(RestoreArgs),
    /// Check this machine and show which settings are in force
    Doctor,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the JSON Schema of manifests
    Schema,
    /// Stand between a factory and a program it runs.
    #[command(name = "__guard", hide = true)]
    Guard {
        /// What the guard is to do.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Play the agent of the demo.
    #[command(name = "__demo-agent", hide = true)]
    DemoAgent,
}

/// What can be done with products.
#[derive(Debug, Subcommand)]
pub(crate) enum ProductsCommand {
    /// Create a product, or change it
    Set(ProductSetArgs),
}

/// What can be done with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; its secret is shown once
    Create(TokenCreateArgs),
    /// List tokens
    List,
    /// Make a token worthless
    Revoke {
        /// The token's id, as `giga token list` shows it
        id: String,
    },
}

impl Command {
    /// Whether it runs until somebody stops it.
    pub(crate) fn is_long_lived(&self) -> bool {
        matches!(self, Self::Up(_) | Self::Serve(_) | Self::Factory(_) | Self::Local(_))
    }

    /// Whether it tells its story itself, so that log lines would only be in the way.
    pub(crate) fn is_a_show(&self) -> bool {
        matches!(self, Self::Local(_)) || matches!(self, Self::Up(args) if args.demo)
    }

    /// How much more is logged. What has a longer answer gives that for the first `-v`.
    pub(crate) fn log_verbosity(&self, given: &GlobalArgs) -> u8 {
        let own = u8::from(matches!(self, Self::Gc(_)));
        given.verbose.saturating_sub(own)
    }

    /// The global flags with what it means by them.
    pub(crate) fn global(&self, given: &GlobalArgs) -> GlobalArgs {
        match self {
            Self::Local(args) => args.global(given),
            _ => given.clone(),
        }
    }

    /// The settings that its own flags give.
    pub(crate) fn overrides(&self) -> Overrides {
        match self {
            Self::Serve(args) => args.overrides(),
            Self::Up(args) => args.serve.overrides(),
            Self::Factory(args) => args.overrides(),
            Self::Local(args) => args.overrides(),
            Self::Backup(BackupArgs { store, .. }) | Self::Restore(RestoreArgs { store, .. }) => {
                Overrides { store: store.clone(), ..Overrides::default() }
            }
            _ => Overrides::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_guard_takes_whatever_follows_it() {
        let cli = Cli::parse_from(["giga", "__guard", "--grace-ms", "5", "--", "sh", "-c", "--help"]);

        let Command::Guard { args } = cli.command else { panic!("not a guard: {:?}", cli.command) };
        assert_eq!(args, ["--grace-ms", "5", "--", "sh", "-c", "--help"]);
    }
}

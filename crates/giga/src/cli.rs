//! The grammar of the command line.

mod actions;
mod aliases;
mod bench;
mod dash;
mod fleet;
mod help;
mod jobs;
mod maintenance;
mod mcp;
#[cfg(test)]
mod reference;
mod service;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, FromArgMatches, Parser, Subcommand};

use crate::config::Overrides;

pub(crate) use actions::{
    DismissArgs, NeedsMeArgs, PinArgs, PriorityArgs, ReviewCommand, ReviewRequestArgs, Tail, VerdictArgs, VoteArgs,
};
pub(crate) use aliases::did_you_mean;
pub(crate) use bench::{BenchArgs, BenchBroker, BenchCommand, BenchStore};
pub(crate) use dash::DashArgs;
pub(crate) use fleet::{
    ArtifactCommand, ArtifactGetArgs, BudgetCommand, BudgetSetArgs, CredentialCommand, DivergenceArgs, FactoryCommand,
    ModeArgs, PoolCommand, PoolSetArgs, ProductCommand, ProductSetArgs, ProfileCommand, ProfileCreateArgs,
    ProfileShowArgs, RepoSeats, RoleName, TermWeight, TokenCommand, TokenCreateArgs, TrackerCommand, WebhookCommand,
};
pub(crate) use help::command;
pub(crate) use jobs::{
    AnswerArgs, CancelArgs, DeadLettersCommand, EventsArgs, JobsArgs, LogsArgs, PauseArgs, PlanArgs, RequeueArgs,
    ResumeArgs, RunsArgs, ShipArgs, SubmitArgs, Until, WaitArgs,
};
pub(crate) use maintenance::{BackupCommand, BackupCreateArgs, BackupRestoreArgs, GcArgs};
pub(crate) use mcp::McpArgs;
pub(crate) use service::{FactoryRunArgs, LocalArgs, ScalerArgs, ServeArgs, UpArgs, queue_data};

const AFTER_HELP: &str = "\
Exit codes:
    0  success
    1  failure: a job failed, a manifest is invalid, a check of `giga doctor` failed
    2  invalid command line or configuration
    3  the coordinator rejected the request
    4  the coordinator is unreachable or unavailable
    5  not found
    6  unauthenticated or forbidden
  124  timed out

Data goes to standard output, messages to standard error.
Settings come from flags, GIGA_* variables and giga.toml; `giga doctor` shows the effective ones.
`giga COMMAND --help` describes a command.";

/// Run coding agents on a fleet of machines.
#[derive(Debug, Parser)]
#[command(
    name = "giga",
    version,
    after_help = AFTER_HELP,
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
    /// Configuration file (default: giga.toml in the working directory or the configuration directory)
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Data directory
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Address of the coordinator
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) api: Option<String>,
    /// Authenticate with this token (visible in the process list; prefer GIGA_TOKEN)
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Product to use
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) product: Option<String>,
    /// Print JSON: one document, or one per line for streams
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only errors to standard error
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Disable colours
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Log more: -v for debug, -vv for trace
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// The commands. [`help`] groups them.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a giga.toml and a sample job to the working directory
    Init,
    /// Run a coordinator and a factory on this machine
    Up(UpArgs),
    /// Run a coordinator
    Serve(ServeArgs),
    /// Run, list, drain and remove factories (machines that run agents)
    #[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
    Factory {
        #[command(subcommand)]
        command: FactoryCommand,
    },
    /// List and change pools: factories that are started on demand
    #[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
    Pool {
        #[command(subcommand)]
        command: PoolCommand,
    },
    /// Start factories of pools when there is work for them
    Scaler(ScalerArgs),
    /// Run the jobs in a folder, without a coordinator
    Local(LocalArgs),
    /// Submit jobs
    Submit(SubmitArgs),
    /// Draw the jobs of a plan, and submit them as a tree
    #[command(after_help = "\
A plan:
    ---
    repo: notes                  # holds for all jobs
    ---
    # Release 2                  the root, a composite: it ships when the jobs below have
    ## Write the docs            a job; its text is the text below the heading
    ## Change the code           a composite, because there are jobs below
    ### Change the parser
    ~~~job
    after: Write the docs        # one heading, or several in brackets
    priority: high               # any key of a manifest
    ~~~")]
    Plan(PlanArgs),
    /// Wait until jobs finish or need attention
    Wait(WaitArgs),
    /// Watch and steer the fleet in the terminal
    Dash(DashArgs),
    /// List jobs, newest first
    Jobs(JobsArgs),
    /// Show one job
    Job {
        /// Job id, or its last characters (at least 4)
        id: String,
    },
    /// List the runs of a job, or show the evidence of one
    Runs(RunsArgs),
    /// Show the output of a job's engine
    Logs(LogsArgs),
    /// Explain a job's stage and which factories can run it
    #[command(after_help = "\
Columns:
    FIT       1 if the job uses all rare capabilities of the factory, less if it leaves some unused
    AFFINITY  1 if the factory has the repository
    HEALTH    success rate of the runs on the factory
    WAIT      penalty while the job has waited for less than 30 minutes; equal for all factories")]
    Explain {
        /// Job id, or its last characters (at least 4)
        id: String,
    },
    /// Cancel jobs
    Cancel(CancelArgs),
    /// Requeue failed jobs
    Requeue(RequeueArgs),
    /// Answer the question of a job
    Answer(AnswerArgs),
    /// Merge the work of verified jobs
    Ship(ShipArgs),
    /// List, approve and reject work that waits for review
    #[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
    Review {
        #[command(subcommand)]
        command: ReviewCommand,
    },
    /// Send completed work back for changes
    RequestChanges(VerdictArgs),
    /// Reject completed work: the job fails
    Reject(VerdictArgs),
    /// Change the priority of a job
    Priority(PriorityArgs),
    /// Pin a job to a factory
    Pin(PinArgs),
    /// Pause jobs and the jobs below them: none starts, running ones finish their run
    Pause(PauseArgs),
    /// Resume paused jobs
    Resume(ResumeArgs),
    /// Remove failed jobs from the list of what needs you; they can still be requeued
    Dismiss(DismissArgs),
    /// List what needs you: questions, reviews, merges, failures, alerts
    NeedsMe(NeedsMeArgs),
    /// List what needs an operator
    Alerts,
    /// List dead-lettered jobs
    DeadLetters {
        #[command(subcommand)]
        command: Option<DeadLettersCommand>,
    },
    /// List, change, pause and resume products (groups of repositories that share seats)
    #[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
    Product {
        #[command(subcommand)]
        command: ProductCommand,
    },
    /// Show and change budgets: what products may spend, and what they have spent
    #[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
    Budget {
        #[command(subcommand)]
        command: BudgetCommand,
    },
    /// List, show and create profiles: personas with defaults that jobs name
    #[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
    Profile {
        #[command(subcommand)]
        command: ProfileCommand,
    },
    /// List, download and remove artifacts: files that runs attached to their jobs
    #[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
    Artifact {
        #[command(subcommand)]
        command: ArtifactCommand,
    },
    /// List and resume credentials of engines
    #[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
    Credential {
        #[command(subcommand)]
        command: CredentialCommand,
    },
    /// List trackers and the jobs of their items, and send a status again
    #[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
    Tracker {
        #[command(subcommand)]
        command: TrackerCommand,
    },
    /// List and test outgoing webhooks: who is told about jobs and alerts
    #[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
    Webhook {
        #[command(subcommand)]
        command: WebhookCommand,
    },
    /// Show or change the dispatch mode
    Mode(ModeArgs),
    /// Show how push mode compares with polling, and whether it can take over
    Divergence(DivergenceArgs),
    /// Create, list and revoke tokens
    #[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Print a link that signs a browser in to the web UI
    SignIn,
    /// Show events of the fleet or of one job
    Events(EventsArgs),
    /// Remove worktrees and branches of finished jobs
    Gc(GcArgs),
    /// Measure the performance of a coordinator
    Bench(BenchArgs),
    /// Create, verify and restore backups of the coordinator
    #[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
    Backup {
        #[command(subcommand)]
        command: BackupCommand,
    },
    /// Check this machine and show the effective settings
    Doctor,
    /// Serve the tools of the fleet to an MCP client, on standard input and output
    Mcp(McpArgs),
    /// Print a shell completion script
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Print the JSON Schema of manifests
    Schema,
    /// Supervise a program for a factory.
    #[command(name = "__guard", hide = true)]
    Guard {
        /// Arguments of the guard.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run the agent of the demo.
    #[command(name = "__demo-agent", hide = true)]
    DemoAgent,
}

impl Cli {
    /// Reads the command line of this process.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let mut command = command();
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

impl Command {
    /// Whether it runs until a signal stops it.
    pub(crate) fn is_long_lived(&self) -> bool {
        matches!(self, Self::Up(_) | Self::Serve(_) | Self::Local(_) | Self::Scaler(_))
            || matches!(self, Self::Factory { command: FactoryCommand::Run(_) })
    }

    /// Whether it prints its own progress instead of log lines.
    pub(crate) fn prints_progress(&self) -> bool {
        matches!(self, Self::Local(_)) || matches!(self, Self::Up(args) if args.demo)
    }

    /// The log verbosity. `gc` uses the first `-v` for its own output; log lines would break the screen of `dash`.
    pub(crate) fn log_verbosity(&self, given: &GlobalArgs) -> u8 {
        if matches!(self, Self::Dash(_)) {
            return 0;
        }
        let own = u8::from(matches!(self, Self::Gc(_)));
        given.verbose.saturating_sub(own)
    }

    /// The global flags, adjusted by the command.
    pub(crate) fn global(&self, given: &GlobalArgs) -> GlobalArgs {
        match self {
            Self::Local(args) => args.global(given),
            Self::Dash(args) => args.global(given),
            _ => given.clone(),
        }
    }

    /// The settings that the command's own flags override.
    pub(crate) fn overrides(&self) -> Overrides {
        match self {
            Self::Serve(args) => args.overrides(),
            Self::Up(args) => args.serve.overrides(),
            Self::Factory { command: FactoryCommand::Run(args) } => args.overrides(),
            Self::Local(args) => args.overrides(),
            Self::Backup { command } => Overrides { store: command.store().cloned(), ..Overrides::default() },
            _ => Overrides::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn a_guard_takes_whatever_follows_it() {
        let cli = Cli::parse_from(["giga", "__guard", "--grace-ms", "5", "--", "sh", "-c", "--help"]);

        let Command::Guard { args } = cli.command else { panic!("not a guard: {:?}", cli.command) };
        assert_eq!(args, ["--grace-ms", "5", "--", "sh", "-c", "--help"]);
    }
}

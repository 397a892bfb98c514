//! The arguments of commands about jobs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use domain::StageName;

use crate::config::HumanDuration;

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
    /// Wait until the jobs finish or need attention; a job that no factory can run ends the wait after a minute
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: keep waiting for a job that no factory can run
    #[arg(long, requires = "wait")]
    pub(crate) patient: bool,
    /// Submit everything in one request; one bad manifest stops none of the others
    #[arg(long)]
    pub(crate) batch: bool,
}

/// Arguments of `wait`.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Ids, or their last characters (at least 4)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Give up after this long, such as 90s or 10m
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<HumanDuration>,
    /// What to wait for
    #[arg(long, value_enum, default_value_t = Until::Rest)]
    pub(crate) until: Until,
    /// Keep waiting for a job that no factory can run or ship; without this it ends the wait after a minute
    #[arg(long)]
    pub(crate) patient: bool,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Until {
    /// The work is done, and verified if the manifest has verify commands
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
    /// The job's id, or its last characters (at least 4)
    pub(crate) id: String,
    /// Go on while the job runs, into its next run if there is one
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Of the run with this number, as `giga runs` lists them; of the latest when absent
    #[arg(long, value_name = "N", conflicts_with = "epoch")]
    pub(crate) run: Option<u32>,
    /// Of the run with this epoch
    #[arg(long, value_name = "EPOCH")]
    pub(crate) epoch: Option<u64>,
    /// Leave control characters in: they can change your terminal
    #[arg(long)]
    pub(crate) raw: bool,
}

/// Arguments of `runs`.
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// The job's id, or its last characters (at least 4)
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
    /// Ids, or their last characters (at least 4)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Why, for the record
    #[arg(short, long, value_name = "WHY")]
    pub(crate) message: Option<String>,
}

/// Arguments of `requeue`.
#[derive(Debug, Args)]
pub(crate) struct RequeueArgs {
    /// Ids, or their last characters (at least 4)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Throw saved work away and begin again
    #[arg(long)]
    pub(crate) fresh: bool,
    /// What the next run should know; for a job that asks the answer, without which it is not sent on ("" has it decide by itself)
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// Arguments of `ship`.
#[derive(Debug, Args)]
pub(crate) struct ShipArgs {
    /// Ids, or their last characters (at least 4)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Wait until they are merged; a merge that no factory can do ends the wait after a minute
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: keep waiting for a merge that no factory can do
    #[arg(long, requires = "wait")]
    pub(crate) patient: bool,
}

/// What can be done with dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadLettersCommand {
    /// Take jobs off the list of dead letters; they can still be requeued
    Dismiss {
        /// Ids, or their last characters (at least 4)
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Why, for the record
        #[arg(short, long, value_name = "WHY")]
        message: Option<String>,
    },
}

/// Arguments of `events`.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Only of this job: its id, or its last characters (at least 4)
    pub(crate) id: Option<String>,
    /// Go on as things happen
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// At most this many of what has happened already
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
}

//! Arguments of the commands about jobs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use domain::{FactoryId, RepoName, StageName, Tag};

use crate::config::HumanDuration;

use super::actions::Tail;

/// Arguments of `submit`.
#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// Manifest files; `-` reads one from standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Idempotency key: submitting again with the same key returns the same job
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Reject unknown keys in manifests
    #[arg(long)]
    pub(crate) strict: bool,
    /// Show where the jobs would run; submit nothing
    #[arg(long, conflicts_with_all = ["wait", "batch"])]
    pub(crate) dry_run: bool,
    /// Wait until the jobs finish or need attention; fail after a minute if no factory can run a job
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: keep waiting for a job that no factory can run
    #[arg(long, requires = "wait")]
    pub(crate) patient: bool,
    /// Submit all files in one request; an invalid manifest does not affect the others
    #[arg(long)]
    pub(crate) batch: bool,
    /// Add the jobs to this one as its children, in one request; the same file is added once
    #[arg(long, value_name = "ID", conflicts_with = "dry_run")]
    pub(crate) parent: Option<String>,
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Markdown file with a `##` heading for each job, and `###` for the jobs below it; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Submit the jobs after drawing them
    #[arg(long)]
    pub(crate) submit: bool,
    /// Beginning of the jobs' idempotency keys (default: of the file's content)
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Reject unknown keys in the file
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Arguments of `wait`.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Job ids, or their last characters (at least 4)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Time out after this long, such as 90s or 10m (exit code 124)
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<HumanDuration>,
    /// State to wait for
    #[arg(long, value_enum, default_value_t = Until::Finished)]
    pub(crate) until: Until,
    /// Keep waiting for a job that no factory can run or ship (default: fail after a minute)
    #[arg(long)]
    pub(crate) patient: bool,
}

/// The state that `wait` waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Until {
    /// Completed, and verified if the manifest has verify commands: ready to ship
    Testing,
    /// Merged
    Shipped,
    /// Finished, or waiting for an operator
    Finished,
}

/// Arguments of `jobs`.
#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    /// Only jobs in this stage; repeatable
    #[arg(long = "stage", value_name = "STAGE")]
    pub(crate) stages: Vec<StageName>,
    /// Only jobs that this factory holds or is offered, or whose last run was on it
    #[arg(long, value_name = "NAME")]
    pub(crate) factory: Option<FactoryId>,
    /// Only jobs with this tag; repeatable: all must match
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<Tag>,
    /// Only jobs with these words in the title, or with this beginning or end of the id
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Only jobs of this repository
    #[arg(long, value_name = "NAME")]
    pub(crate) repo: Option<RepoName>,
    /// Also print how many jobs match
    #[arg(long)]
    pub(crate) total: bool,
    /// Maximum number of jobs
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) limit: u16,
    /// List all jobs
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Job id, or its last characters (at least 4)
    pub(crate) id: String,
    /// Follow: keep printing new output, also of later runs
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Run number, as `giga runs` lists it (default: the latest)
    #[arg(long, value_name = "N", conflicts_with = "epoch")]
    pub(crate) run: Option<u32>,
    /// Run with this lease epoch
    #[arg(long, value_name = "EPOCH")]
    pub(crate) epoch: Option<u64>,
    /// Only the end: a number of lines, or a size such as 64KiB; 1 MiB at most
    #[arg(long, value_name = "LINES|SIZE")]
    pub(crate) tail: Option<Tail>,
    /// Print control characters unescaped; they can affect your terminal
    #[arg(long)]
    pub(crate) raw: bool,
}

/// Arguments of `runs`.
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// Job id, or its last characters (at least 4)
    pub(crate) id: String,
    /// Show the evidence of this run: verify output, commits, the engine's final message
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<u32>,
    /// Also show the diff
    #[arg(long, requires = "run")]
    pub(crate) diff: bool,
}

/// Arguments of `cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// Job ids, or their last characters (at least 4)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Reason, recorded in the job's events
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// Arguments of `pause`.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// Job ids, or their last characters (at least 4)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Reason, shown while the jobs wait
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// Arguments of `resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Job ids, or their last characters (at least 4)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
}

/// Arguments of `requeue`.
#[derive(Debug, Args)]
pub(crate) struct RequeueArgs {
    /// Job ids, or their last characters (at least 4)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Discard saved work and start again from the base branch
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Continue with the saved work (default)
    #[arg(long, conflicts_with = "fresh")]
    pub(crate) from_checkpoint: bool,
    /// Message for the next run
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// Arguments of `answer`.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Job id, or its last characters (at least 4)
    pub(crate) id: String,
    /// The answer; use "" to let the agent decide
    #[arg(value_name = "TEXT", required_unless_present = "message", conflicts_with = "message")]
    pub(crate) text: Option<String>,
    /// The answer, as an option
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// Arguments of `ship`.
#[derive(Debug, Args)]
pub(crate) struct ShipArgs {
    /// Job ids, or their last characters (at least 4)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Wait until the jobs are merged; fail after a minute if no factory can merge one
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: keep waiting for a merge that no factory can do
    #[arg(long, requires = "wait")]
    pub(crate) patient: bool,
}

/// The verbs of `dead-letters`.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadLettersCommand {
    /// Remove jobs from the list; they can still be requeued
    Dismiss {
        /// Job ids, or their last characters (at least 4)
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Reason, recorded in the job's events
        #[arg(short, long, value_name = "TEXT")]
        message: Option<String>,
    },
}

/// Arguments of `events`.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Only events of this job: its id, or its last characters (at least 4)
    pub(crate) id: Option<String>,
    /// Follow: keep printing new events
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Maximum number of past events
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
}

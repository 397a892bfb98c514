//! The arguments of commands that keep a fleet in order.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `gc`.
#[derive(Debug, Args)]
#[command(after_help = "\
What goes and what stays is summed up by kind and reason. -v (--verbose) lists all of it instead, and --json always does;
-vv logs as well.")]
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

//! Arguments of the maintenance commands.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `gc`.
#[derive(Debug, Args)]
#[command(after_help = "\
The summary counts removed and kept items by kind and reason. -v (--verbose) lists every item, and so does --json;
-vv also logs.")]
pub(crate) struct GcArgs {
    /// Show what would be removed and why the rest is kept; remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The verbs of `backup`.
#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Back up the coordinator to one file (online)
    Create(BackupCreateArgs),
    /// Check a backup and show what is in it
    Verify {
        /// Backup file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Replace the coordinator's data with a backup
    Restore(BackupRestoreArgs),
}

impl BackupCommand {
    /// The value of `--store`.
    pub(crate) fn store(&self) -> Option<&String> {
        match self {
            Self::Create(args) => args.store.as_ref(),
            Self::Verify { .. } => None,
            Self::Restore(args) => args.store.as_ref(),
        }
    }
}

/// Arguments of `backup create`.
#[derive(Debug, Args)]
pub(crate) struct BackupCreateArgs {
    /// File to write (default: giga-backup-TIME.db)
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Read this store directly, while no coordinator runs on it; same values as `giga serve --store`
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
}

/// Arguments of `backup restore`.
#[derive(Debug, Args)]
pub(crate) struct BackupRestoreArgs {
    /// Backup file, as written by `giga backup create`
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Write to this store directly, while no coordinator runs on it; same values as `giga serve --store`
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
}

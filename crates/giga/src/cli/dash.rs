//! Arguments of `dash`.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::GlobalArgs;
use crate::cli::service::queue_global;

/// Arguments of `dash`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Pages: 1 needs me, 2 jobs, 3 factories, 4 money, 5 dispatch. `?` shows the keys of each view.

Without DIR it shows the coordinator that the other commands use; in a folder queue, the queue.
AQ_FLEET_DASH=1 always shows the coordinator, AQ_FLEET_DASH=0 the folder queue of the working directory.")]
pub(crate) struct DashArgs {
    /// Folder queue of `giga local` to show
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Use only ASCII characters (default outside UTF-8 locales)
    #[arg(long)]
    pub(crate) ascii: bool,
}

impl DashArgs {
    /// The folder queue to show: the named one, or that of the working directory unless AQ_FLEET_DASH decides.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let here = || Path::new(".").to_owned();
        let variable = std::env::var("AQ_FLEET_DASH").ok().filter(|value| !value.is_empty());
        match (&self.dir, variable.as_deref()) {
            (Some(dir), _) => Some(dir.clone()),
            (None, Some("0" | "false")) => Some(here()),
            (None, Some(_)) => None,
            (None, None) => Some(here()).filter(|here| here.join("inbox").is_dir() && here.join(".giga").is_dir()),
        }
    }

    /// Uses the settings and the data directory of the folder queue, if it shows one.
    pub(super) fn global(&self, given: &GlobalArgs) -> GlobalArgs {
        // A coordinator that the command line names is meant.
        let is_named = given.api.is_some() || given.data.is_some();
        match self.folder().filter(|_| self.dir.is_some() || !is_named) {
            Some(dir) => queue_global(&dir, given),
            None => given.clone(),
        }
    }
}

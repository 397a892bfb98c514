//! The long-lived commands: everything that a coordinator and a factory are made of is put together here.

use crate::cli::UpArgs;
use crate::config::Config;
use crate::output::Output;

/// Runs a coordinator until it is told to stop.
pub(crate) async fn serve(_config: &Config, _out: &Output) -> anyhow::Result<()> {
    anyhow::bail!("this build has no coordinator in it")
}

/// Runs a factory until it is told to stop; `join` is the one-time token it enrols with.
pub(crate) async fn factory(_config: &Config, _join: Option<&str>, _out: &Output) -> anyhow::Result<()> {
    anyhow::bail!("this build has no factory in it")
}

/// Runs a coordinator and a factory in one process.
pub(crate) async fn up(_config: &Config, _args: &UpArgs, _out: &Output) -> anyhow::Result<()> {
    anyhow::bail!("this build has no coordinator in it")
}

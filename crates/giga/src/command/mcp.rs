//! `giga mcp`: the tools of the fleet, or of one run, on standard input and output.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcp::{FleetTools, RunSocketError, RunTools, ToolAccess, serve_stdio};

use crate::cli::McpArgs;
use crate::failure::Failure;

use super::Context;

/// The limit of a wait, from the environment.
const MAX_WAIT: &str = "GIGA_MCP_MAX_WAIT_S";

/// Serves the tools of the fleet until the client closes standard input.
pub(super) async fn mcp(context: &Context<'_>, args: &McpArgs) -> Result<(), Failure> {
    let access = if args.read_only { ToolAccess::ReadOnly } else { ToolAccess::Full };
    let tools = FleetTools::new(context.client()?, access, Arc::clone(&context.clock)).waiting_at_most(wait_max()?);
    serve_stdio(tools).await.map_err(|error| Failure::failed(error.to_string()))
}

/// Serves the tools of one run to its agent. It reads no configuration: the agent's sandbox hides it, and the factory
/// has everything that the tools need.
pub(crate) async fn serve_run(socket: &Path) -> Result<(), Failure> {
    let (Some(directory), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(Failure::usage(format!("{} is not the socket of a run", socket.display())));
    };
    // A socket's path is short by the system's rules, the factory's directories may not be.
    std::env::set_current_dir(directory).map_err(|error| unreachable(socket, &error.to_string()))?;
    let tools = RunTools::connect(name.into()).await.map_err(|error| match error {
        RunSocketError::Ended => unreachable(socket, "its run has ended"),
        error => unreachable(socket, &error.to_string()),
    })?;
    serve_stdio(tools).await.map_err(|error| Failure::failed(error.to_string()))
}

fn unreachable(socket: &Path, why: &str) -> Failure {
    Failure::failed(format!("cannot reach the factory at {}: {why}", socket.display()))
        .hint("a factory starts this command for its agents; use `giga mcp` for the tools of the fleet")
}

fn wait_max() -> Result<Option<Duration>, Failure> {
    let Some(text) = std::env::var(MAX_WAIT).ok().filter(|text| !text.is_empty()) else { return Ok(None) };
    match text.parse() {
        Ok(seconds @ 1..=3_600) => Ok(Some(Duration::from_secs(seconds))),
        _ => Err(Failure::usage(format!("{MAX_WAIT} is `{}`", domain::escape_for_terminal(&text)))
            .hint("set it to a number of seconds from 1 to 3600, or unset it")),
    }
}

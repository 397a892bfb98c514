//! Arguments of `mcp`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `mcp`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A client starts it, for example with `claude mcp add giga -- giga mcp`. The address and the token are those of every
other command; the role of the token decides what the tools may do.

Environment:
    GIGA_MCP_MAX_WAIT_S  longest wait of `wait_for_job` in seconds (default 50), for clients that wait longer for a tool")]
pub(crate) struct McpArgs {
    /// Offer only the tools that change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Serve the tools of one run to its agent, over the socket of the run.
    #[arg(long, hide = true, value_name = "SOCKET", conflicts_with = "read_only")]
    pub(crate) run: Option<PathBuf>,
}

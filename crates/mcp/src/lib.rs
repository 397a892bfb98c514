//! The MCP servers: one for programs outside the fleet, one for the agent inside a run.
//!
//! Both are written once against a port. The tools of the fleet call the coordinator's API through a [`client::Client`]:
//! over the network for `giga mcp`, inside the coordinator's process for `/mcp`. The tools of a run call the factory
//! over the run's socket, and name no job: the connection does.

mod failure;
mod fleet;
mod run;
mod schema;
mod stdio;

pub use fleet::{FleetService, FleetTools, ToolAccess, fleet_service};
pub use run::{RunSocketError, RunTools};
pub use stdio::{StdioError, serve_stdio};

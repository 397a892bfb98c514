//! The MCP servers: one for programs outside the fleet, one for the agent inside a run.

//! Limits of the programs of a run, from the configuration.

use serde::Deserialize;

/// Limits of time and output for the programs of a run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct Limits {
    /// The wall clock of an engine. A job's budget can only make it shorter.
    pub engine_wall_ms: u64,
    /// An engine without a line of output.
    pub engine_idle_ms: u64,
    /// The same during a tool call of the agent, for engines whose stream reports it.
    pub tool_idle_ms: u64,
    /// All setup or all verify commands of a run together.
    pub verify_wall_ms: u64,
    /// The time between SIGTERM and SIGKILL of a process group.
    pub grace_ms: u64,
    /// Output of one program that is kept; for an engine the size of its log. The rest is read and dropped.
    pub output_bytes_max: u64,
    /// The largest growth of a worktree while its engine works.
    pub worktree_growth_mib_max: u64,
    /// The free disk space to keep while an engine works.
    pub disk_free_mib_min: u64,
    /// How often the disk is checked while an engine works.
    pub disk_every_ms: u64,
    /// A git command that stays on this machine.
    pub git_local_ms: u64,
    /// A git command that talks to a remote.
    pub git_network_ms: u64,
    /// How long a run waits in all for an unavailable remote.
    pub remote_away_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            engine_wall_ms: 2 * 60 * 60 * 1000,
            engine_idle_ms: 15 * 60 * 1000,
            tool_idle_ms: 60 * 60 * 1000,
            verify_wall_ms: 30 * 60 * 1000,
            grace_ms: 5_000,
            output_bytes_max: 64 * 1024 * 1024,
            worktree_growth_mib_max: 50 * 1024,
            disk_free_mib_min: 256,
            disk_every_ms: 30_000,
            git_local_ms: 2 * 60 * 1000,
            git_network_ms: 10 * 60 * 1000,
            remote_away_ms: 10 * 60 * 1000,
        }
    }
}

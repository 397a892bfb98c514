//! The request to an engine, and its limits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::{Epoch, JobId};
use parking_lot::Mutex;
use sandbox::Limits;

use crate::prompt::{Memory, Prompt};

/// The request to an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineRequest {
    /// The job.
    pub job: JobId,
    /// The epoch of its lease.
    pub epoch: Epoch,
    /// Which attempt at the job this is, from 1.
    pub attempt: u32,
    /// The job's title.
    pub title: String,
    /// The input of the prompt.
    pub prompt: Prompt,
    /// The model, if the job names one.
    pub model: Option<String>,
    /// The engine's own session to resume, if there is one. This host may not have it.
    pub session: Option<String>,
    /// Where it works.
    pub worktree: PathBuf,
    /// Its limits.
    pub allowance: Allowance,
    /// The MCP server with the tools of its run [B11].
    pub tools: Option<ToolServer>,
}

/// The MCP server of a run, which the engine starts and talks to over standard streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolServer {
    /// Its program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
}

impl ToolServer {
    /// The name of the server in every engine: tools are called `mcp__giga__ask_human` and alike.
    pub const NAME: &str = "giga";
}

impl EngineRequest {
    /// The agent's prompt.
    pub fn prompt_with(&self, memory: Memory) -> String {
        self.prompt.text(memory, &self.worktree)
    }
}

/// The limits of a run, in addition to those of every program. Absent is without limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Allowance {
    /// What is left of the job's own wall clock. Exceeding it exhausts the job's budget, not the host's limit.
    pub wall: Option<Duration>,
    /// US dollars left of the job's budget.
    pub usd: Option<f64>,
    /// Input and output tokens left of the job's budget.
    pub tokens: Option<u64>,
    /// Turns of the conversation.
    pub turns: Option<u32>,
    /// Disk space.
    pub disk: Option<DiskAllowance>,
    /// What the agent has reserved for subtasks since the run began, of the dollars and tokens above.
    pub reserved: Reserved,
}

/// What an agent has reserved for its subtasks. It grows during a run.
#[derive(Debug, Clone, Default)]
pub struct Reserved(Arc<Mutex<BTreeMap<JobId, (f64, u64)>>>);

impl Reserved {
    /// Reserves dollars and tokens for a subtask, once.
    pub fn add(&self, subtask: JobId, usd: f64, tokens: u64) {
        self.0.lock().insert(subtask, (usd, tokens));
    }

    /// Dollars reserved.
    pub fn usd(&self) -> f64 {
        self.0.lock().values().map(|(usd, _)| usd).sum()
    }

    /// Tokens reserved.
    pub fn tokens(&self) -> u64 {
        self.0.lock().values().fold(0, |sum, (_, tokens)| sum.saturating_add(*tokens))
    }
}

impl PartialEq for Reserved {
    fn eq(&self, other: &Self) -> bool {
        (self.usd(), self.tokens()) == (other.usd(), other.tokens())
    }
}

impl Allowance {
    /// US dollars left for this run.
    pub fn usd_left(&self) -> Option<f64> {
        self.usd.map(|usd| (usd - self.reserved.usd()).max(0.0))
    }

    /// Tokens left for this run.
    pub fn tokens_left(&self) -> Option<u64> {
        self.tokens.map(|tokens| tokens.saturating_sub(self.reserved.tokens()))
    }
}

impl DiskAllowance {
    /// The host's limits.
    pub fn of(limits: &Limits) -> Self {
        Self {
            growth_bytes_max: limits.worktree_growth_mib_max.saturating_mul(1024 * 1024),
            free_bytes_min: limits.disk_free_mib_min.saturating_mul(1024 * 1024),
            every: Duration::from_millis(limits.disk_every_ms),
        }
    }
}

/// The disk usage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskAllowance {
    /// The largest growth of the worktree.
    pub growth_bytes_max: u64,
    /// The free space to keep.
    pub free_bytes_min: u64,
    /// How often it is checked.
    pub every: Duration,
}

//! What an engine is asked to do, and what it may use up.

use std::path::PathBuf;
use std::time::Duration;

use domain::{Epoch, JobId};

use crate::config::Limits;
use crate::prompt::{Memory, Prompt};

/// What an engine is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineRequest {
    /// The job.
    pub job: JobId,
    /// The epoch it is held under.
    pub epoch: Epoch,
    /// Which attempt at the job this is, from 1.
    pub attempt: u32,
    /// The job's title.
    pub title: String,
    /// What the prompt depends on.
    pub prompt: Prompt,
    /// The model, if the job asks for one.
    pub model: Option<String>,
    /// The engine's own session to resume, if there is one. It may not be known on this host.
    pub session: Option<String>,
    /// Where it works.
    pub worktree: PathBuf,
    /// What it may use up.
    pub allowance: Allowance,
}

impl EngineRequest {
    /// What the agent is told.
    pub fn prompt_with(&self, memory: Memory) -> String {
        self.prompt.text(memory, &self.worktree)
    }
}

/// What a run may use up, beyond the bounds of every program. Absent is without limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Allowance {
    /// What is left of the job's own wall clock. Time over it is the job's budget, not the host's limit.
    pub wall: Option<Duration>,
    /// US dollars that are left of the job's budget.
    pub usd: Option<f64>,
    /// Tokens, in and out together, that are left of the job's budget.
    pub tokens: Option<u64>,
    /// Turns of the conversation.
    pub turns: Option<u32>,
    /// Room on the disk.
    pub disk: Option<DiskAllowance>,
}

impl DiskAllowance {
    /// What a host's limits allow.
    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            growth_bytes_max: limits.worktree_growth_mib_max.saturating_mul(1024 * 1024),
            free_bytes_min: limits.disk_free_mib_min.saturating_mul(1024 * 1024),
            every: Duration::from_millis(limits.disk_every_ms),
        }
    }
}

/// How much of the disk a run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskAllowance {
    /// What the worktree may grow by.
    pub growth_bytes_max: u64,
    /// What must stay free.
    pub free_bytes_min: u64,
    /// How often it is looked at.
    pub every: Duration,
}

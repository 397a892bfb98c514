//! What an engine is asked to do, and what it may use up.

use std::path::PathBuf;
use std::time::Duration;

use domain::{Epoch, JobId};

use crate::config::Limits;
use crate::workspace::QUESTION;

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
    /// The prompt.
    pub prompt: String,
    /// The model, if the job asks for one.
    pub model: Option<String>,
    /// The engine's own session to resume, if there is one. It may not be known on this host.
    pub session: Option<String>,
    /// Where it works.
    pub worktree: PathBuf,
    /// What the worktree holds when it begins.
    pub beginning: Beginning,
    /// What it may use up.
    pub allowance: Allowance,
}

/// What a worktree holds before the engine's first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// What the base branch holds.
    Fresh,
    /// What an earlier run of the job had done when it was interrupted.
    SavedWork,
}

/// Whether an engine remembers what it did before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// The conversation goes on.
    Resumed,
    /// It begins anew.
    New,
}

impl EngineRequest {
    /// What the agent is told: the prompt, before it where the work stands, and behind it how to ask a person.
    pub fn prompt_with(&self, memory: Memory) -> String {
        let standing = match (self.beginning, memory) {
            (Beginning::Fresh, Memory::New) => return self.with_a_way_to_ask(&self.prompt),
            (Beginning::Fresh, Memory::Resumed) => {
                "You worked on this job before. The worktree is a new one, without what you did. Begin again."
            }
            (Beginning::SavedWork, Memory::Resumed) => {
                "You worked on this job before and were interrupted. The worktree holds your work as you left it, \
                 perhaps under another path. Carry on where you were."
            }
            (Beginning::SavedWork, Memory::New) => {
                "An earlier attempt at this job was interrupted. The worktree holds its work, partly uncommitted: look at \
                 `git log` and `git status` first, keep what is good, and finish the rest."
            }
        };
        self.with_a_way_to_ask(&format!("{standing}\n\nThe job:\n\n{}", self.prompt))
    }

    fn with_a_way_to_ask(&self, prompt: &str) -> String {
        format!(
            "{}\n\n---\n\nIf you cannot go on without a decision of a person, write the question to the file `{QUESTION}` in \
             `{}` and stop.\n",
            prompt.trim_end(),
            self.worktree.display()
        )
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

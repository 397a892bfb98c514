//! The limits of a run's usage, and their messages. Wall clock and idle time are enforced by the process itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{Clock, FailureReason, Retryability, RunInsights};

use super::{Allowance, DiskAllowance, RunVerdict};

/// A limit that a run reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Limit {
    /// The host's wall clock.
    Wall(Duration),
    /// The job's own wall clock.
    BudgetWall(Duration),
    /// No output for this long.
    Idle(Duration),
    /// No output for this long during a tool call.
    ToolIdle(Duration),
    /// US dollars spent, and allowed.
    Usd { spent: f64, max: f64 },
    /// Tokens used, and allowed.
    Tokens { used: u64, max: u64 },
    /// Turns taken, and allowed.
    Turns { taken: u32, max: u32 },
    /// The growth of the worktree, and its limit.
    Growth { grown: u64, max: u64 },
    /// The free disk space, and its minimum.
    Free { left: u64, min: u64 },
}

impl Limit {
    /// The first limit that this usage exceeds.
    pub(super) fn reached(allowance: &Allowance, insights: &RunInsights) -> Option<Self> {
        let usd = allowance.usd_left().zip(insights.cost_usd).filter(|(max, spent)| spent >= max);
        let used = insights.tokens_in.unwrap_or(0).saturating_add(insights.tokens_out.unwrap_or(0));
        let tokens = allowance.tokens_left().filter(|max| used >= *max);
        // The last turn that is allowed may still be taken.
        let turns = allowance.turns.zip(insights.turns).filter(|(max, taken)| taken > max);
        usd.map(|(max, spent)| Self::Usd { spent, max })
            .or(tokens.map(|max| Self::Tokens { used, max }))
            .or(turns.map(|(max, taken)| Self::Turns { taken, max }))
    }

    /// The verdict on a run that ended by itself, in view of the job's budget: many engines report their usage only
    /// then. A run that used exactly what was left is within it.
    pub(super) fn verdict_at_end(verdict: RunVerdict, allowance: &Allowance, insights: &RunInsights) -> RunVerdict {
        let limit = match Self::reached(allowance, insights) {
            Some(limit @ Self::Usd { spent, max }) if spent > max => limit,
            Some(limit @ Self::Tokens { used, max }) if used > max => limit,
            _ => return verdict,
        };
        match verdict {
            RunVerdict::EndedWell | RunVerdict::EndedWithRefusals { .. } => limit.judgement(),
            RunVerdict::Failed { again: Retryability::Worthwhile, message, .. } => {
                RunVerdict::stays(FailureReason::BudgetExceeded, format!("{limit}; {message}"))
            }
            other => other,
        }
    }

    /// The limit with the run's total usage: more can be known after its end than when it was stopped.
    pub(super) fn with_final(self, insights: &RunInsights) -> Self {
        match self {
            Self::Usd { spent, max } => Self::Usd { spent: insights.cost_usd.unwrap_or(spent), max },
            Self::Tokens { used: known, max } => {
                let used = insights.tokens_in.unwrap_or(0).saturating_add(insights.tokens_out.unwrap_or(0));
                Self::Tokens { used: used.max(known), max }
            }
            other => other,
        }
    }

    /// The verdict on a run that exceeded it.
    pub(super) fn judgement(self) -> RunVerdict {
        let message = self.to_string();
        match self {
            Self::Usd { .. } | Self::Tokens { .. } | Self::BudgetWall(_) => {
                RunVerdict::stays(FailureReason::BudgetExceeded, message)
            }
            Self::Wall(_) | Self::Idle(_) | Self::ToolIdle(_) | Self::Turns { .. } => {
                RunVerdict::may_pass(FailureReason::Timeout, message)
            }
            Self::Growth { .. } => RunVerdict::may_pass(FailureReason::EngineError, message),
            // The host's problem, not the agent's: another host may have space.
            Self::Free { .. } => RunVerdict::may_pass(FailureReason::Crash, message),
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wall(max) => write!(f, "it ran for longer than {max:?}, the limit `factory.limits.wall`"),
            Self::BudgetWall(max) => write!(f, "it ran for longer than {max:?}, the job's `budget.wall`"),
            Self::Idle(max) => write!(f, "it said nothing for {max:?}, the limit `factory.limits.idle`"),
            Self::ToolIdle(max) => {
                write!(f, "a tool call of it said nothing for {max:?}, the limit `factory.limits.tool_idle`")
            }
            Self::Usd { spent, max } => {
                let (spent, max) = (domain::dollars(*spent), domain::dollars(*max));
                write!(f, "it spent {spent}, of {max} left of the job's `budget.usd`")
            }
            Self::Tokens { used, max } => {
                let tokens = if *used == 1 { "token" } else { "tokens" };
                let (used, max) = (domain::grouped(*used), domain::grouped(*max));
                write!(f, "it used {used} {tokens}, of {max} left of the job's `budget.tokens`")
            }
            Self::Turns { taken, max } => {
                write!(f, "it took {}, the limit `turns_max` is {max}", domain::counted(*taken, "turn"))
            }
            Self::Growth { grown, max } => {
                let (grown, max) = (mebibytes(*grown), mebibytes(*max));
                write!(f, "its worktree grew by {grown} MiB, the limit `factory.limits.disk` is {max}")
            }
            Self::Free { left, min } => {
                let (left, min) = (mebibytes(*left), mebibytes(*min));
                write!(f, "the disk has {left} MiB left, the limit `factory.limits.disk_free` is {min}")
            }
        }
    }
}

fn mebibytes(bytes: u64) -> u64 {
    bytes / (1024 * 1024)
}

/// Checks a run's disk usage periodically.
pub(super) struct DiskWatch {
    allowance: DiskAllowance,
    worktree: PathBuf,
}

impl DiskWatch {
    pub(super) fn new(allowance: DiskAllowance, worktree: &Path) -> Self {
        Self { allowance, worktree: worktree.to_owned() }
    }

    /// Resolves when the run uses too much.
    pub(super) async fn trips(&mut self, clock: &dyn Clock) -> Limit {
        let began_with = self.used().await;
        loop {
            clock.sleep(self.allowance.every).await;
            let (min, max) = (self.allowance.free_bytes_min, self.allowance.growth_bytes_max);
            if let Some(left) = self.free().filter(|left| *left < min) {
                return Limit::Free { left, min };
            }
            let grown = self.used().await.saturating_sub(began_with);
            if grown > max {
                return Limit::Growth { grown, max };
            }
        }
    }

    fn free(&self) -> Option<u64> {
        let stat = rustix::fs::statvfs(&self.worktree).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    async fn used(&self) -> u64 {
        let worktree = self.worktree.clone();
        tokio::task::spawn_blocking(move || bytes_under(&worktree)).await.unwrap_or(0)
    }
}

/// The disk usage of the files below a directory, without following links. Files that vanish meanwhile count nothing.
fn bytes_under(folder: &Path) -> u64 {
    let mut total = 0_u64;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            if found.is_dir() {
                folders.push(entry.path());
            } else {
                total = total.saturating_add(on_disk(&found));
            }
        }
    }
    total
}

/// Blocks, not length: a sparse file uses what it holds.
fn on_disk(found: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    found.blocks().saturating_mul(512)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insights(tokens_in: u64, tokens_out: u64, cost_usd: Option<f64>, turns: u32) -> RunInsights {
        RunInsights {
            tokens_in: Some(tokens_in),
            tokens_out: Some(tokens_out),
            cost_usd,
            turns: Some(turns),
            ..RunInsights::default()
        }
    }

    #[test]
    fn each_limit_names_itself_and_its_value() {
        let allowance = Allowance { usd: Some(2.5), tokens: Some(1_000), turns: Some(3), ..Allowance::default() };
        let reached = |insights| Limit::reached(&allowance, &insights).map(Limit::judgement);
        let budget = |message: &str| Some(RunVerdict::stays(FailureReason::BudgetExceeded, message.to_owned()));

        assert_eq!(reached(insights(500, 499, Some(2.4), 3)), None);
        assert_eq!(
            reached(insights(1, 1, Some(2.5), 1)),
            budget("it spent $2.50, of $2.50 left of the job's `budget.usd`")
        );
        assert_eq!(
            reached(insights(600, 400, None, 1)),
            budget("it used 1,000 tokens, of 1,000 left of the job's `budget.tokens`")
        );
        assert_eq!(
            reached(insights(1, 1, None, 4)),
            Some(RunVerdict::may_pass(
                FailureReason::Timeout,
                "it took 4 turns, the limit `turns_max` is 3".to_owned()
            ))
        );
    }

    #[test]
    fn a_run_that_ends_over_its_budget_exceeds_it() {
        let allowance = Allowance { usd: Some(2.5), tokens: Some(3_000), ..Allowance::default() };
        let ended = |verdict, insights| Limit::verdict_at_end(verdict, &allowance, &insights);
        let budget = |message: &str| RunVerdict::stays(FailureReason::BudgetExceeded, message.to_owned());
        let crashed = || RunVerdict::may_pass(FailureReason::Crash, "it crashed".to_owned());

        assert_eq!(ended(RunVerdict::EndedWell, insights(2_000, 1_000, Some(2.4), 1)), RunVerdict::EndedWell);
        let tokens = "it used 6,000 tokens, of 3,000 left of the job's `budget.tokens`";
        assert_eq!(ended(RunVerdict::EndedWell, insights(5_000, 1_000, None, 1)), budget(tokens));
        assert_eq!(ended(crashed(), insights(5_000, 1_000, None, 1)), budget(&format!("{tokens}; it crashed")));
        assert_eq!(
            ended(RunVerdict::EndedWell, insights(1, 1, Some(2.51), 1)),
            budget("it spent $2.51, of $2.50 left of the job's `budget.usd`")
        );
        assert_eq!(ended(RunVerdict::Stopped, insights(5_000, 1_000, None, 1)), RunVerdict::Stopped);
    }

    #[test]
    fn a_limit_reports_the_final_figures_of_its_run() {
        let limit = Limit::Usd { spent: 0.12, max: 0.1 }.with_final(&insights(1, 1, Some(0.15), 1));
        assert_eq!(limit, Limit::Usd { spent: 0.15, max: 0.1 });

        let limit = Limit::Tokens { used: 100, max: 90 }.with_final(&insights(80, 50, None, 1));
        assert_eq!(limit, Limit::Tokens { used: 130, max: 90 });
    }

    #[test]
    fn money_that_is_not_known_is_not_over_any_limit() {
        let allowance = Allowance { usd: Some(0.01), ..Allowance::default() };

        assert_eq!(Limit::reached(&allowance, &insights(1_000_000, 1_000_000, None, 9)), None);
    }
}

//! One attempt at a job by one factory under one epoch [J6].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::budget::Billing;
use crate::ids::Epoch;
use crate::names::{CommitSha, EngineName, FactoryId};
use crate::reason::FailureReason;
use crate::time::Timestamp;

/// One attempt at a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Its number among the job's runs, from 1.
    pub n: u32,
    /// The epoch of its lease.
    pub epoch: Epoch,
    /// The factory.
    pub factory: FactoryId,
    /// The engine, once it started.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub engine: Option<EngineName>,
    /// How the engine's credential is billed, if the factory reported it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub billing: Option<Billing>,
    /// When the lease was granted.
    pub granted_at: Timestamp,
    /// When the engine started.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_at: Option<Timestamp>,
    /// When the run ended, including push and final report. Absent while it is in progress.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_at: Option<Timestamp>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outcome: Option<RunOutcome>,
    /// Details for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// The resulting commit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sha: Option<CommitSha>,
    /// Cost and size of the change.
    #[serde(default)]
    pub insights: RunInsights,
    /// Results of the prepare and verify commands [B4].
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub evidence: Vec<Evidence>,
}

/// How a run ended. `fenced` and `preempted` are outcomes of runs, never of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// The work is done, pushed and reported.
    Completed,
    /// The run failed.
    Failed(FailureReason),
    /// The lease expired: no heartbeat from the factory.
    LeaseLost,
    /// The factory released the job.
    Released,
    /// A more urgent job took its seat.
    Preempted,
    /// An operator cancelled the job.
    Cancelled,
    /// The agent asked a question.
    Asked,
    /// The agent waits for its subtasks.
    AwaitedSubtasks,
    /// The engine's usage window was exhausted.
    QuotaWindow,
    /// The store was restored from a backup during the run.
    Restored,
}

impl RunOutcome {
    /// Whether the run was interrupted: the factory could not report its cost.
    pub fn is_interruption(self) -> bool {
        match self {
            Self::LeaseLost
            | Self::Released
            | Self::Preempted
            | Self::Cancelled
            | Self::Asked
            | Self::AwaitedSubtasks
            | Self::QuotaWindow
            | Self::Restored => true,
            Self::Completed | Self::Failed(_) => false,
        }
    }
}

/// Cost and size of a run's change. An unknown value is absent, never 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RunInsights {
    /// Input tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// Output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
    /// Cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Turns of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Number of changed files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u32>,
    /// Number of added lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insertions: Option<u32>,
    /// Number of removed lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions: Option<u32>,
    /// Run time of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_ms: Option<u64>,
}

/// Maximum cost that a run can report, in US dollars.
pub const COST_USD_MAX: f64 = 1_000_000.0;

/// Maximum input or output tokens that a run can report.
pub const TOKENS_MAX: u64 = 1_000_000_000_000;

/// Maximum turns or tool uses that a run can report.
pub const TURNS_MAX: u32 = 1_000_000;

/// Maximum engine time that a run can report: a year.
pub const ENGINE_MS_MAX: u64 = 366 * 24 * 3_600_000;

/// A reported value outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be between 0 and {max}, found {found}")]
pub struct ValueOutOfRange {
    /// The field's name in JSON.
    pub field: &'static str,
    /// The maximum.
    pub max: String,
    /// The reported value.
    pub found: String,
}

impl RunInsights {
    /// Checks every value against its maximum: an invalid one would corrupt totals.
    pub fn check(&self) -> Result<(), ValueOutOfRange> {
        let is_cost = |cost: f64| (0.0..=COST_USD_MAX).contains(&cost);
        within("costUsd", self.cost_usd, COST_USD_MAX, is_cost)?;
        within("tokensIn", self.tokens_in, TOKENS_MAX, |tokens| tokens <= TOKENS_MAX)?;
        within("tokensOut", self.tokens_out, TOKENS_MAX, |tokens| tokens <= TOKENS_MAX)?;
        within("turns", self.turns, TURNS_MAX, |turns| turns <= TURNS_MAX)?;
        within("engineMs", self.engine_ms, ENGINE_MS_MAX, |ms| ms <= ENGINE_MS_MAX)
    }

    /// The larger of each value that grows during a run, and the others of `self`: reports may arrive in any order.
    #[must_use]
    pub fn at_least(self, earlier: &Self) -> Self {
        let cost_usd = match (self.cost_usd, earlier.cost_usd) {
            (Some(cost), Some(known)) => Some(cost.max(known)),
            (cost, known) => cost.or(known),
        };
        Self {
            cost_usd,
            tokens_in: self.tokens_in.max(earlier.tokens_in),
            tokens_out: self.tokens_out.max(earlier.tokens_out),
            turns: self.turns.max(earlier.turns),
            ..self
        }
    }

    /// Clears values outside their range, so that they count as unknown. Returns an error for each.
    pub fn drop_out_of_range(&mut self) -> Vec<ValueOutOfRange> {
        let mut dropped = Vec::new();
        while let Err(error) = self.check() {
            match error.field {
                "costUsd" => self.cost_usd = None,
                "tokensIn" => self.tokens_in = None,
                "tokensOut" => self.tokens_out = None,
                "turns" => self.turns = None,
                _ => self.engine_ms = None,
            }
            dropped.push(error);
        }
        dropped
    }
}

fn within<T: Copy + ToString>(
    field: &'static str,
    value: Option<T>,
    max: T,
    is_within: impl Fn(T) -> bool,
) -> Result<(), ValueOutOfRange> {
    match value.filter(|value| !is_within(*value)) {
        Some(found) => Err(ValueOutOfRange { field, max: max.to_string(), found: found.to_string() }),
        None => Ok(()),
    }
}

/// Total cost of all ended runs of a job. An unknown value is absent, never 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TotalSpend {
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Input and output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Run time of engines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_ms: Option<u64>,
    /// Runs with unknown cost, not included in the dollars.
    #[serde(skip_serializing_if = "is_zero")]
    pub runs_without_cost: u32,
    /// Runs with unknown token usage, not included in the tokens.
    #[serde(skip_serializing_if = "is_zero")]
    pub runs_without_tokens: u32,
    /// Interrupted runs with unknown cost. They do not block the job.
    #[serde(skip_serializing_if = "is_zero")]
    pub interrupted_without_cost: u32,
    /// Interrupted runs with unknown token usage.
    #[serde(skip_serializing_if = "is_zero")]
    pub interrupted_without_tokens: u32,
}

/// The cost of several jobs together.
impl std::iter::Sum for TotalSpend {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        fn plus<T>(one: Option<T>, other: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(add(one, other)),
                (known, None) | (None, known) => known,
            }
        }
        all.fold(Self::default(), |sum, one| Self {
            cost_usd: plus(sum.cost_usd, one.cost_usd, |a, b| a + b),
            tokens: plus(sum.tokens, one.tokens, u64::saturating_add),
            engine_ms: plus(sum.engine_ms, one.engine_ms, u64::saturating_add),
            runs_without_cost: sum.runs_without_cost.saturating_add(one.runs_without_cost),
            runs_without_tokens: sum.runs_without_tokens.saturating_add(one.runs_without_tokens),
            interrupted_without_cost: sum.interrupted_without_cost.saturating_add(one.interrupted_without_cost),
            interrupted_without_tokens: sum.interrupted_without_tokens.saturating_add(one.interrupted_without_tokens),
        })
    }
}

impl TotalSpend {
    /// Whether no cost is known.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The cost since `earlier`.
    pub(crate) fn beyond(self, earlier: Self) -> Self {
        Self {
            cost_usd: self.cost_usd.map(|cost| (cost - earlier.cost_usd.unwrap_or(0.0)).max(0.0)),
            tokens: self.tokens.map(|tokens| tokens.saturating_sub(earlier.tokens.unwrap_or(0))),
            engine_ms: self.engine_ms.map(|ms| ms.saturating_sub(earlier.engine_ms.unwrap_or(0))),
            runs_without_cost: self.runs_without_cost.saturating_sub(earlier.runs_without_cost),
            runs_without_tokens: self.runs_without_tokens.saturating_sub(earlier.runs_without_tokens),
            interrupted_without_cost: self.interrupted_without_cost.saturating_sub(earlier.interrupted_without_cost),
            interrupted_without_tokens: self
                .interrupted_without_tokens
                .saturating_sub(earlier.interrupted_without_tokens),
        }
    }

    /// Adds an ended run. A run whose engine did not start costs nothing.
    pub(crate) fn add(&mut self, run: &Run) {
        let insights = &run.insights;
        let is_started = run.started_at.is_some();
        let is_interrupted = run.outcome.is_some_and(RunOutcome::is_interruption);
        // Documents of earlier versions may contain any number.
        match insights.cost_usd.filter(|cost| (0.0..=COST_USD_MAX).contains(cost)) {
            Some(cost) => self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost),
            None => {
                self.runs_without_cost = self.runs_without_cost.saturating_add(u32::from(is_started));
                let is_interrupted = u32::from(is_started && is_interrupted);
                self.interrupted_without_cost = self.interrupted_without_cost.saturating_add(is_interrupted);
            }
        }
        let tokens = [insights.tokens_in, insights.tokens_out];
        for tokens in tokens.into_iter().flatten() {
            self.tokens = Some(self.tokens.unwrap_or(0).saturating_add(tokens));
        }
        let is_untold = is_started && tokens == [None, None];
        self.runs_without_tokens += u32::from(is_untold);
        self.interrupted_without_tokens += u32::from(is_untold && is_interrupted);
        // If the holder was lost, the lease bounds the engine time.
        let held_for = || Some(run.ended_at?.since(run.started_at?));
        let held_for = || held_for().and_then(|held| u64::try_from(held.as_millis()).ok());
        if let Some(ms) = insights.engine_ms.or_else(held_for) {
            self.engine_ms = Some(self.engine_ms.unwrap_or(0).saturating_add(ms));
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde lends the field")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The step of a command in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum CommandStep {
    /// After the agent and before the commit: its changes are part of the work.
    Prepare,
    /// After the commit: its changes are not part of the work.
    #[default]
    Verify,
}

impl CommandStep {
    /// The key in the manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Verify => "verify",
        }
    }

    /// Whether it is `verify`.
    pub fn is_verify(&self) -> bool {
        *self == Self::Verify
    }
}

/// One prepare or verify command and its result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The step.
    #[serde(skip_serializing_if = "CommandStep::is_verify", default)]
    pub step: CommandStep,
    /// The command.
    pub command: String,
    /// The exit code; absent if the command was stopped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit: Option<i32>,
    /// Why the command was stopped or could not start.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<String>,
    /// The end of its output.
    pub output: String,
    /// Its duration.
    pub took_ms: u64,
}

/// Signals with the same number on Linux and macOS.
const SIGNALS: [(i32, &str); 12] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
];

/// Maximum number and total length of quoted output lines.
const QUOTED_LINES_MAX: usize = 3;
const QUOTED_CHARS_MAX: usize = 300;
const QUOTED_COMMAND_CHARS_MAX: usize = 200;

/// The last non-empty lines of an output, joined into one line.
pub fn last_lines(output: &str) -> String {
    let lines = output.lines().rev().map(str::trim).filter(|line| line.chars().any(char::is_alphanumeric));
    let mut last: Vec<&str> = lines.take(QUOTED_LINES_MAX).collect();
    last.reverse();
    let joined = last.join(" / ");
    match joined.chars().count().checked_sub(QUOTED_CHARS_MAX) {
        None | Some(0) => joined,
        Some(surplus) => format!("…{}", joined.chars().skip(surplus).collect::<String>()),
    }
}

impl Evidence {
    /// Exit code (with the signal that a shell's exit code encodes), or why the command was stopped.
    pub fn ended(&self) -> String {
        match (self.exit, &self.stopped) {
            (Some(code), _) => match SIGNALS.iter().find(|(number, _)| code == 128 + number) {
                Some((_, signal)) => format!("exit code {code}, killed by {signal}"),
                None => format!("exit code {code}"),
            },
            (None, Some(why)) => format!("stopped: {why}"),
            (None, None) => "stopped".to_owned(),
        }
    }

    /// The failure in one line: command, exit and last output lines.
    pub fn failure(&self) -> String {
        let mut lines = self.command.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next().unwrap_or_default().trim();
        let command: String = first.chars().take(QUOTED_COMMAND_CHARS_MAX).collect();
        let more = if lines.next().is_some() || command.len() < first.len() { " …" } else { "" };
        let failed = format!("`{command}{more}` failed: {}", self.ended());
        match last_lines(&self.output) {
            last if last.is_empty() => failed,
            last => format!("{failed}: {last}"),
        }
    }
}

//! Configuration of engines. Plain values; the caller reads them from its configuration.

use domain::EngineName;
use sandbox::EnvironmentConfig;
use serde::Deserialize;

use crate::{EngineKind, Permissions};

/// One engine that this factory offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct EngineConfig {
    /// Its kind. When absent, an engine with `argv` is a command, and one without has the kind of its name.
    pub kind: Option<EngineKind>,
    /// A command's program and its arguments; `{job_id} {epoch} {worktree} {title} {model}` are replaced inside each argument.
    pub argv: Vec<String>,
    /// The program of an engine that is no command, when it is not found under its default name.
    pub program: Option<String>,
    /// Additional arguments.
    pub args: Vec<String>,
    /// Retryable exit codes of a command; after the others the job goes to a person at once. Without a list every
    /// failure is retryable.
    pub retryable_exit_codes: Option<Vec<i32>>,
    /// Where a command prints its cost.
    pub reads: OutputPatterns,
    /// The model, when the job names none.
    pub model: Option<String>,
    /// Whose usage windows it uses: an opaque id, the engine's name when absent.
    pub credential: Option<String>,
    /// How that credential is billed: `api` for dollars per use (the default), or `subscription`. What a subscription covers
    /// is counted apart from the budget of a product.
    pub billing: Option<domain::Billing>,
    /// The permission mode of claude: `acceptEdits` with any shell command when absent. For other agents their own
    /// mode.
    pub permission_mode: Option<String>,
    /// How permission requests of an agent are answered that speaks the Agent Client Protocol.
    pub permissions: Permissions,
    /// Whether agents of claude and codex may fetch and search web pages with the engine's own tools. Off by default: a
    /// page can hold instructions for the agent. Without effect on other engines.
    pub web: bool,
    /// What codex may change: `workspace-write` when absent.
    pub sandbox: Option<String>,
    /// Turns of the conversation in one run, which are the model's answers: without effect on an engine that does not
    /// report them while it runs.
    pub turns_max: Option<u32>,
    /// The engine's environment in addition to the allow-list.
    pub environment: EnvironmentConfig,
}

impl EngineConfig {
    /// The kind of the engine called `name`.
    pub fn kind(&self, name: &EngineName) -> EngineKind {
        let unnamed = || if self.argv.is_empty() { EngineKind::of_engine(name) } else { EngineKind::COMMAND };
        self.kind.unwrap_or_else(unnamed)
    }

    /// Whether the turns of the engine called `name` are known while it runs, so that `turns_max` can end it.
    pub(crate) fn tells_turns(&self, name: &EngineName) -> bool {
        (self.kind(name).descriptor().reports_turns)(self)
    }

    /// The program of the engine called `name`, if it has one.
    pub fn program(&self, name: &EngineName) -> Option<&str> {
        let kind = self.kind(name);
        match self.argv.first() {
            Some(program) if kind.descriptor().takes_argv => Some(program),
            _ => self.program.as_deref().or(kind.program()),
        }
    }
}

/// Where a command prints its metrics. The last match counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct OutputPatterns {
    /// US dollars so far.
    pub cost_usd: Option<OutputPattern>,
    /// Tokens read so far.
    pub tokens_in: Option<OutputPattern>,
    /// Tokens written so far.
    pub tokens_out: Option<OutputPattern>,
    /// Turns so far.
    pub turns: Option<OutputPattern>,
}

/// How a metric is found in a line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputPattern {
    /// The first group of a regular expression, or all of it.
    Regex(String),
    /// A JSON pointer into a line that is JSON: `/usage/cost`.
    Pointer(String),
}

/// The price of a million tokens of a model, in US dollars.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Price {
    /// Tokens read.
    pub input: f64,
    /// Tokens written.
    pub output: f64,
    /// Tokens read from a cache; as `input` when absent.
    #[serde(default)]
    pub cached: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    // [F2]
    #[test]
    fn an_engine_is_what_it_says_it_is_or_what_its_name_or_its_command_line_says() {
        let named = |name: &str| EngineKind::named(name).unwrap();
        let kind = |name: &str, text: &str| {
            serde_json::from_str::<EngineConfig>(text).unwrap().kind(&name.parse::<EngineName>().unwrap())
        };

        assert_eq!(kind("claude", "{}"), named("claude"));
        assert_eq!(kind("claude", r#"{"argv": ["claude", "--print"]}"#), EngineKind::COMMAND);
        assert_eq!(kind("cheap", r#"{"kind": "codex", "model": "small"}"#), named("codex"));
        assert_eq!(kind("mine", r#"{"argv": ["mine"]}"#), EngineKind::COMMAND);
    }

    // [F2]
    #[test]
    fn turns_are_told_by_agents_that_are_followed_and_by_commands_that_print_them() {
        let tells = |name: &str, text: &str| {
            serde_json::from_str::<EngineConfig>(text).unwrap().tells_turns(&name.parse::<EngineName>().unwrap())
        };

        assert!(tells("claude", "{}") && tells("codex", "{}") && tells("devin", "{}"));
        assert!(!tells("devin", r#"{"kind": "devin"}"#) && !tells("mine", r#"{"argv": ["mine"]}"#));
        assert!(tells("mine", r#"{"argv": ["mine"], "reads": {"turns": {"pointer": "/turns"}}}"#));
    }
}

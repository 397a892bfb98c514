//! What Claude Code says about what it used up, and its closing word.

use serde_json::Value;

use super::session::target;
use crate::engine::prices::Tokens;
use crate::engine::stream::{number_at, one_line, text_at};

/// What was used up before the closing word.
#[derive(Default)]
pub(super) struct Spent {
    /// By earlier messages.
    before: Tokens,
    /// By the message that comes now, in several lines of the same figures.
    now: Tokens,
    message: Option<String>,
    pub(super) turns: u32,
}

/// The closing word. Large parts of it are not kept.
pub(super) struct Closing {
    pub(super) subtype: String,
    pub(super) is_error: bool,
    pub(super) status: Option<u64>,
    pub(super) text: String,
    pub(super) refused: Vec<Refused>,
    pub(super) tokens: Option<Tokens>,
    pub(super) cost_usd: Option<f64>,
    pub(super) turns: Option<u32>,
}

/// A tool that the agent was not allowed to use.
pub(super) struct Refused {
    pub(super) tool: String,
    pub(super) on: String,
}

/// More refusals than a message can name.
const REFUSALS_MAX: usize = 5;

impl Spent {
    /// Counts one line of an assistant's message. A message comes in several lines, each with the same figures.
    pub(super) fn count(&mut self, object: &Value) -> bool {
        let Some(usage) = object.pointer("/message/usage") else { return false };
        let message = text_at(object, "/message/id");
        if message != self.message {
            self.before = self.total();
            self.message = message;
            let is_a_subagents = object.get("parent_tool_use_id").is_some_and(Value::is_string);
            self.turns = self.turns.saturating_add(u32::from(!is_a_subagents));
        }
        self.now = tokens(usage);
        true
    }

    pub(super) fn total(&self) -> Tokens {
        Tokens {
            input: self.before.input.saturating_add(self.now.input),
            cached: self.before.cached.saturating_add(self.now.cached),
            output: self.before.output.saturating_add(self.now.output),
        }
    }
}

impl Closing {
    pub(super) fn read(object: &Value) -> Self {
        let errors = object.get("errors").and_then(Value::as_array).into_iter().flatten();
        let errors: Vec<&str> = errors.filter_map(Value::as_str).take(REFUSALS_MAX).collect();
        let denials = object.get("permission_denials").and_then(Value::as_array).into_iter().flatten();
        let refused = denials.take(REFUSALS_MAX).map(|denial| {
            let tool = text_at(denial, "/tool_name").unwrap_or_default();
            let on = target(&tool, denial.get("tool_input").unwrap_or(&Value::Null));
            Refused { on: on.map(|on| one_line(on.text())).unwrap_or_default(), tool: one_line(&tool) }
        });
        Self {
            subtype: text_at(object, "/subtype").unwrap_or_default(),
            is_error: object.get("is_error").and_then(Value::as_bool).unwrap_or(false),
            status: object.get("api_error_status").and_then(Value::as_u64),
            text: text_at(object, "/result").unwrap_or_else(|| errors.join("; ")),
            refused: refused.collect(),
            tokens: all_tokens(object),
            cost_usd: object.get("total_cost_usd").and_then(Value::as_f64),
            turns: object.get("num_turns").and_then(Value::as_u64).and_then(|turns| u32::try_from(turns).ok()),
        }
    }
}

/// The tokens of the whole run. After a limit `usage` can be empty while `modelUsage` is not.
fn all_tokens(object: &Value) -> Option<Tokens> {
    let usage = object.get("usage").map(tokens).filter(|tokens| *tokens != Tokens::default());
    usage.or_else(|| {
        let models = object.get("modelUsage")?.as_object()?;
        let sum = models.values().fold(Tokens::default(), |sum, model| {
            let cached = number_at(model, "/cacheReadInputTokens");
            let read = number_at(model, "/inputTokens") + number_at(model, "/cacheCreationInputTokens") + cached;
            let written = number_at(model, "/outputTokens");
            Tokens { input: sum.input + read, cached: sum.cached + cached, output: sum.output + written }
        });
        (sum != Tokens::default()).then_some(sum)
    })
}

fn tokens(usage: &Value) -> Tokens {
    let cached = number_at(usage, "/cache_read_input_tokens");
    let fresh = number_at(usage, "/input_tokens").saturating_add(number_at(usage, "/cache_creation_input_tokens"));
    Tokens { input: fresh.saturating_add(cached), cached, output: number_at(usage, "/output_tokens") }
}

//! Claude Code's usage reports, and its result message.

use std::collections::BTreeMap;

use serde_json::Value;

use super::session::target;
use crate::prices::Tokens;
use crate::stream::{number_at, one_line, text_at};

/// The usage before the result message.
#[derive(Default)]
pub(super) struct UsageSoFar {
    /// Of earlier messages.
    before: Tokens,
    /// Of the current message, which comes in several lines with the same usage.
    now: Tokens,
    message: Option<String>,
    pub(super) turns: u32,
    /// The highest usage of each message, from the stream or the session's record.
    messages: BTreeMap<String, Tokens>,
    /// The usage of messages that are no longer tracked one by one.
    settled: Tokens,
    /// The last cost record that this run has written.
    pub(super) cost_state: Option<CostState>,
}

/// Messages that are tracked. A record names a message soon after the stream.
const MESSAGES_MAX: usize = 4_096;

/// A session's cost when a run of it started, by the record in the conversation's own file.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct CostState {
    pub(super) usd: f64,
    pub(super) tokens: Tokens,
}

/// The result message. Large parts of it are not kept.
pub(super) struct ResultMessage {
    pub(super) subtype: String,
    pub(super) is_error: bool,
    pub(super) status: Option<u64>,
    pub(super) text: String,
    pub(super) refused: Vec<RefusedTool>,
    pub(super) tokens: Option<Tokens>,
    pub(super) cost_usd: Option<f64>,
    pub(super) turns: Option<u32>,
}

/// A tool that was refused to the agent.
pub(super) struct RefusedTool {
    pub(super) tool: String,
    pub(super) on: String,
}

/// More refusals than a message can name.
const REFUSALS_MAX: usize = 5;

impl UsageSoFar {
    /// Counts one line of an assistant's message. A message comes in several lines, each with the same usage.
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
        self.record(self.message.clone().unwrap_or_default(), usage);
        true
    }

    /// Records the usage of a message, which can come more than once, complete or not.
    pub(super) fn record(&mut self, id: String, usage: &Value) {
        if self.messages.len() >= MESSAGES_MAX && !self.messages.contains_key(&id) {
            self.settled = self.known();
            self.messages.clear();
        }
        let (seen, told) = (self.messages.entry(id).or_default(), tokens(usage));
        seen.input = seen.input.max(told.input);
        seen.cached = seen.cached.max(told.cached);
        seen.output = seen.output.max(told.output);
    }

    /// The usage by the stream alone.
    pub(super) fn total(&self) -> Tokens {
        self.before.plus(self.now)
    }

    /// The usage by the stream and the session's record.
    pub(super) fn known(&self) -> Tokens {
        self.messages.values().fold(self.settled, |sum, tokens| sum.plus(*tokens))
    }

    /// Cost and tokens by the cost record of this run, in a session that had cost `before`. A record with less than the
    /// messages show is ignored.
    pub(super) fn recorded(&self, before: CostState) -> Option<CostState> {
        let (record, known) = (self.cost_state?, self.known());
        let tokens = record.tokens.minus(before.tokens);
        let is_whole = record.usd >= before.usd && tokens.input >= known.input && tokens.output >= known.output;
        is_whole.then_some(CostState { usd: record.usd - before.usd, tokens })
    }
}

impl CostState {
    pub(super) fn read(record: &Value) -> Self {
        let usd = record.get("totalCostUSD").and_then(Value::as_f64).unwrap_or(0.0);
        Self { usd, tokens: model_tokens(record).unwrap_or_default() }
    }

    /// Whether the totals of a result message include earlier runs. They do if they are at least the sum of what was
    /// recorded before this run and what this run's stream counted, in money and in tokens. Decided by values rather
    /// than by version: up to 2.1.276 each run reports its own cost, and a session may have runs of several versions.
    fn is_included(&self, usd: f64, all: Option<Tokens>, own: Tokens) -> bool {
        let holds = |all: Tokens| {
            all.input >= self.tokens.input.saturating_add(own.input)
                && all.output >= self.tokens.output.saturating_add(own.output)
        };
        usd >= self.usd && all.is_none_or(holds)
    }
}

impl ResultMessage {
    /// Reads the result message of a run whose session had cost `before`, and whose stream has counted `streamed`.
    pub(super) fn read(object: &Value, before: CostState, streamed: Tokens) -> Self {
        let (cost_usd, all) = (object.get("total_cost_usd").and_then(Value::as_f64), model_tokens(object));
        let before = match before.is_included(cost_usd.unwrap_or(0.0), all, streamed) {
            true => before,
            false => CostState::default(),
        };
        let errors = object.get("errors").and_then(Value::as_array).into_iter().flatten();
        let errors: Vec<&str> = errors.filter_map(Value::as_str).take(REFUSALS_MAX).collect();
        let denials = object.get("permission_denials").and_then(Value::as_array).into_iter().flatten();
        let refused = denials.take(REFUSALS_MAX).map(|denial| {
            let tool = text_at(denial, "/tool_name").unwrap_or_default();
            let on = target(&tool, denial.get("tool_input").unwrap_or(&Value::Null));
            RefusedTool { on: on.map(|on| one_line(on.text())).unwrap_or_default(), tool: one_line(&tool) }
        });
        Self {
            subtype: text_at(object, "/subtype").unwrap_or_default(),
            is_error: object.get("is_error").and_then(Value::as_bool).unwrap_or(false),
            status: object.get("api_error_status").and_then(Value::as_u64),
            text: text_at(object, "/result").unwrap_or_else(|| errors.join("; ")),
            refused: refused.collect(),
            tokens: own_tokens(object, all, before),
            cost_usd: cost_usd.map(|usd| usd - before.usd),
            turns: object.get("num_turns").and_then(Value::as_u64).and_then(|turns| u32::try_from(turns).ok()),
        }
    }
}

/// The tokens of this run. `usage` is this run's in every version. After a limit it can be empty while `modelUsage`, which
/// covers what `total_cost_usd` covers, is not.
fn own_tokens(object: &Value, all: Option<Tokens>, before: CostState) -> Option<Tokens> {
    let usage = object.get("usage").map(tokens).filter(|tokens| *tokens != Tokens::default());
    usage.or_else(|| Some(all?.minus(before.tokens)))
}

/// The tokens of all models of a `modelUsage`.
fn model_tokens(object: &Value) -> Option<Tokens> {
    let models = object.get("modelUsage")?.as_object()?;
    let sum = models.values().fold(Tokens::default(), |sum, model| {
        let cached = number_at(model, "/cacheReadInputTokens");
        let fresh = number_at(model, "/inputTokens").saturating_add(number_at(model, "/cacheCreationInputTokens"));
        Tokens {
            input: sum.input.saturating_add(fresh).saturating_add(cached),
            cached: sum.cached.saturating_add(cached),
            output: sum.output.saturating_add(number_at(model, "/outputTokens")),
        }
    });
    (sum != Tokens::default()).then_some(sum)
}

fn tokens(usage: &Value) -> Tokens {
    let cached = number_at(usage, "/cache_read_input_tokens");
    let fresh = number_at(usage, "/input_tokens").saturating_add(number_at(usage, "/cache_creation_input_tokens"));
    Tokens { input: fresh.saturating_add(cached), cached, output: number_at(usage, "/output_tokens") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokens(input: u64, output: u64) -> Tokens {
        Tokens { input, cached: 0, output }
    }

    fn closed(usd: f64, all: (u64, u64), usage: &Value) -> ResultMessage {
        let before = CostState { usd: 4.0, tokens: tokens(400_000, 4_000) };
        let models = json!({ "m": { "inputTokens": all.0, "outputTokens": all.1 } });
        let word = json!({ "subtype": "success", "total_cost_usd": usd, "usage": usage, "modelUsage": models });
        ResultMessage::read(&word, before, tokens(80_000, 1))
    }

    fn cost(closing: &ResultMessage) -> f64 {
        (closing.cost_usd.unwrap() * 1e6).round() / 1e6
    }

    #[test]
    fn a_resumed_run_pays_its_own_share_whether_or_not_the_total_covers_the_session() {
        let usage = json!({ "input_tokens": 80_000, "output_tokens": 800 });

        let covering = closed(4.8, (480_000, 4_800), &usage);
        let own = closed(0.8, (80_000, 800), &usage);
        let dear = closed(6.0, (80_000, 800), &usage);

        assert_eq!((cost(&covering), covering.tokens), (0.8, Some(tokens(80_000, 800))));
        assert_eq!((cost(&own), own.tokens), (0.8, Some(tokens(80_000, 800))));
        assert_eq!(cost(&dear), 6.0, "its tokens show that it does not cover the session");
    }

    #[test]
    fn without_usage_the_tokens_of_earlier_runs_are_subtracted_too() {
        assert_eq!(closed(4.8, (480_000, 4_800), &Value::Null).tokens, Some(tokens(80_000, 800)));
        assert_eq!(closed(0.8, (80_000, 800), &Value::Null).tokens, Some(tokens(80_000, 800)));
    }
}

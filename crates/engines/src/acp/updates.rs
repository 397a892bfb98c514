//! Translates the agent's session updates.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{
    ContentBlock, Cost, SessionNotification, SessionUpdate, ToolCall, ToolCallId, ToolCallStatus, ToolCallUpdate,
    ToolKind,
};
use domain::{RunInsights, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::wire::Params;
use crate::turn_counter::TurnCounter;
use crate::{EngineEvent, Target, Usage};

/// Joins partial messages, and counts the cost.
#[derive(Default)]
pub(super) struct Updates {
    message: String,
    tools: BTreeMap<String, TrackedCall>,
    insights: RunInsights,
    spent: SessionCost,
    rounds: TurnCounter,
}

/// A tool call as far as it is known. Some agents announce a call before its target.
#[derive(Clone, Copy, Default)]
struct TrackedCall {
    kind: ToolKind,
    told: bool,
    /// Whether it is in progress.
    runs: bool,
}

/// Cost is reported as the total of a session, earlier runs included.
#[derive(Default)]
enum SessionCost {
    /// The earlier cost of the session is not known yet.
    #[default]
    Unknown,
    /// The session's cost before the run.
    Since(f64),
}

/// Agents send text in chunks; a message longer than this is shown in parts.
const MESSAGE_BYTES_MAX: usize = 8 * 1024;
/// Calls whose kind is remembered until their permission request, which follows at once or never.
const TOOLS_MAX: usize = 256;

impl Updates {
    /// A new session has cost nothing.
    pub(super) fn begin(&mut self) {
        self.spent = SessionCost::Since(0.0);
    }

    /// Updates until here were about earlier runs. If they had no total, this run's cost is unknown.
    pub(super) fn begin_again(&mut self) {
        self.message.clear();
    }

    /// Takes an update. Replayed updates of an earlier run make no events.
    pub(super) fn tell(&mut self, params: &Params, replayed: bool) -> Vec<EngineEvent> {
        let Ok(SessionNotification { update, .. }) = params.read() else { return Vec::new() };
        match update {
            SessionUpdate::UsageUpdate(usage) => return self.cost(usage.cost.as_ref(), replayed),
            _ if replayed => return Vec::new(),
            SessionUpdate::AgentMessageChunk(chunk) => {
                self.rounds.speaks();
                return self.hear(&chunk.content);
            }
            _ => {}
        }
        self.count(&update);
        let mut events = self.rest();
        match update {
            SessionUpdate::ToolCall(call) => events.extend(self.call(call)),
            SessionUpdate::ToolCallUpdate(change) => events.extend(self.change(change)),
            _ => {}
        }
        events
    }

    /// Text that was not shown yet.
    pub(super) fn rest(&mut self) -> Vec<EngineEvent> {
        let text = std::mem::take(&mut self.message);
        if text.trim().is_empty() { Vec::new() } else { vec![EngineEvent::Message { text }] }
    }

    /// Takes the metrics of a turn from its answer. Not all agents report any.
    pub(super) fn end_of_turn(&mut self, result: &Params) {
        let Ok(EndOfTurn { usage: Some(usage) }) = result.read() else { return };
        let cached = usage.cached_read_tokens.unwrap_or(0).saturating_add(usage.cached_write_tokens.unwrap_or(0));
        self.insights.tokens_in = Some(usage.input_tokens.saturating_add(cached));
        self.insights.tokens_out = Some(usage.output_tokens);
    }

    /// The kind of a call's tool, if it was announced.
    pub(super) fn kind_of(&self, call: &ToolCallId) -> ToolKind {
        self.tools.get(call.0.as_ref()).copied().unwrap_or_default().kind
    }

    /// Whether a tool call is in progress.
    pub(super) fn is_in_tool_call(&self) -> bool {
        self.tools.values().any(|call| call.runs)
    }

    pub(super) fn insights(&self) -> RunInsights {
        RunInsights { turns: self.rounds.count(), ..self.insights.clone() }
    }

    fn count(&mut self, update: &SessionUpdate) {
        let is_over = |status: ToolCallStatus| matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
        match update {
            SessionUpdate::AgentThoughtChunk(_) => self.rounds.speaks(),
            SessionUpdate::ToolCall(call) => {
                self.rounds.speaks();
                if is_over(call.status) {
                    self.rounds.hears();
                }
            }
            SessionUpdate::ToolCallUpdate(change) if change.fields.status.is_some_and(is_over) => self.rounds.hears(),
            _ => {}
        }
    }

    fn hear(&mut self, content: &ContentBlock) -> Vec<EngineEvent> {
        if let ContentBlock::Text(text) = content {
            self.message.push_str(&text.text);
        }
        if self.message.len() > MESSAGE_BYTES_MAX { self.rest() } else { Vec::new() }
    }

    /// Reports a call once, as soon as its target is known.
    fn call(&mut self, call: ToolCall) -> Option<EngineEvent> {
        if self.tools.len() >= TOOLS_MAX {
            self.tools.clear();
        }
        let known = self.tools.entry(call.tool_call_id.to_string()).or_default();
        known.kind = call.kind;
        known.runs = matches!(call.status, ToolCallStatus::Pending | ToolCallStatus::InProgress);
        let target = target(&call);
        if known.told || (target.is_none() && call.status == ToolCallStatus::Pending) {
            return None;
        }
        known.told = true;
        let target = target.or(Some(Target::Other(call.title)));
        Some(EngineEvent::ToolCall { tool: call.name.unwrap_or_else(|| format!("{:?}", call.kind)), target })
    }

    fn change(&mut self, change: ToolCallUpdate) -> Vec<EngineEvent> {
        let ToolCallUpdate { tool_call_id, fields, .. } = change;
        let failed = fields.status == Some(ToolCallStatus::Failed);
        let said = fields.raw_output.as_ref().and_then(|output| output.as_str()).map(str::to_owned);
        let status = fields.status;
        let ran = self.tools.get(tool_call_id.0.as_ref()).is_some_and(|call| call.runs);
        let mut call = ToolCall::new(tool_call_id.clone(), String::new()).kind(self.kind_of(&tool_call_id));
        call.update(fields);
        let text = said.unwrap_or_else(|| call.title.clone());
        let mut events: Vec<EngineEvent> = self.call(call).into_iter().collect();
        // An update without a status changes none.
        if let (None, Some(known)) = (status, self.tools.get_mut(tool_call_id.0.as_ref())) {
            known.runs = ran;
        }
        if failed {
            events.push(EngineEvent::ToolFailed { text });
        }
        events
    }

    fn cost(&mut self, cost: Option<&Cost>, replayed: bool) -> Vec<EngineEvent> {
        let Some(cost) = cost.filter(|cost| cost.currency == "USD" && cost.amount.is_finite()) else {
            return Vec::new();
        };
        if replayed {
            self.spent = SessionCost::Since(cost.amount);
            return Vec::new();
        }
        let SessionCost::Since(before) = self.spent else { return Vec::new() };
        let cost_usd = Some((cost.amount - before).max(0.0));
        self.insights.cost_usd = cost_usd;
        vec![EngineEvent::Usage(Usage { cost_usd, ..Usage::default() })]
    }
}

/// The target of a call, if known yet.
fn target(call: &ToolCall) -> Option<Target> {
    let command = call.raw_input.as_ref().and_then(|input| input["command"].as_str());
    if let (ToolKind::Execute, Some(command)) = (call.kind, command) {
        return Some(Target::Command(command.to_owned()));
    }
    let path = call.locations.first()?.path.to_string_lossy().into_owned();
    Some(match call.kind {
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move => Target::Edit(path),
        _ => Target::File(path),
    })
}

/// The reset time of a window, if an error's data has it.
pub(super) fn reset_of(data: &Value) -> Option<Timestamp> {
    let seconds = data.get("resetsAt").or_else(|| data.get("resets_at"))?.as_i64()?;
    seconds.checked_mul(1000).map(Timestamp::from_millis)
}

/// The metrics at the end of a turn, which the protocol does not guarantee yet.
#[derive(Deserialize)]
struct EndOfTurn {
    #[serde(default)]
    usage: Option<TurnUsage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TurnUsage {
    input_tokens: u64,
    output_tokens: u64,
    #[serde(default)]
    cached_read_tokens: Option<u64>,
    #[serde(default)]
    cached_write_tokens: Option<u64>,
}

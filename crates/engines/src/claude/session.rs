//! Translates Claude Code's stream and judges its end.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{Clock, FailureReason, RunInsights, Timestamp};
use sandbox::{Line, signal_name};
use serde_json::Value;

use super::ASKS_A_PERSON;
use super::record::SessionRecord;
use super::result_message::{CostState, ResultMessage, UsageSoFar};
use crate::error_patterns::{says_no_credit, says_outage, says_signed_out, says_unknown_model};
use crate::home::CredentialSync;
use crate::limits::Limit;
use crate::prices::{Prices, Tokens};
use crate::reset_time::reset_time;
use crate::stream::{self, StreamLine, for_people, number_at, one_line, text_at};
use crate::{EngineEvent, Exit, Pending, RateLimit, Reply, RunVerdict, Session, Target, Usage, WindowState};

/// The limits that were passed to the engine, for messages about them.
pub(super) struct Limits {
    pub(super) turns: Option<u32>,
    pub(super) usd: Option<f64>,
}

/// Concurrent tool calls that are tracked.
const TOOL_CALLS_MAX: usize = 256;

/// Follows one run of `claude -p --output-format stream-json`.
pub(super) struct ClaudeSession {
    /// The credential in the job's home, copied back when the program has ended.
    pub(super) credential: Option<CredentialSync>,
    limits: Limits,
    prices: Prices,
    clock: Arc<dyn Clock>,
    /// The session's cost before this run.
    before: CostState,
    /// The program's own record of it.
    record: SessionRecord,
    model: Option<String>,
    /// Whether its session exists.
    has_begun: bool,
    spent: UsageSoFar,
    /// The exhausted window, while it is.
    window: Option<RateLimit>,
    /// Tool calls without a result, by their ids.
    tool_calls: BTreeSet<String>,
    /// Why its last request has no answer, until there is one.
    retrying: Option<String>,
    /// The question of its last tool call: an agent that continues after it has found its own answer.
    question: Option<String>,
    result: Option<ResultMessage>,
    last_words: String,
}

impl ClaudeSession {
    pub(super) fn new(
        limits: Limits,
        prices: Prices,
        clock: Arc<dyn Clock>,
        before: CostState,
        record: SessionRecord,
    ) -> Self {
        Self {
            credential: None,
            limits,
            prices,
            clock,
            before,
            record,
            model: None,
            has_begun: false,
            spent: UsageSoFar::default(),
            window: None,
            tool_calls: BTreeSet::new(),
            retrying: None,
            question: None,
            result: None,
            last_words: String::new(),
        }
    }

    fn understand(&mut self, object: &Value) -> Vec<EngineEvent> {
        match object.get("type").and_then(Value::as_str).unwrap_or_default() {
            "system" => self.system(object),
            "assistant" => self.assistant(object),
            "user" => {
                self.end_tool_calls(object);
                tool_failures(object)
            }
            "rate_limit_event" => self.rate_limit(object),
            "result" => self.close(object),
            _ => Vec::new(),
        }
    }

    fn system(&mut self, object: &Value) -> Vec<EngineEvent> {
        match object.get("subtype").and_then(Value::as_str) {
            Some("init") => {
                self.model = text_at(object, "/model");
                self.has_begun = true;
                let session = text_at(object, "/session_id");
                session.map(|session| EngineEvent::SessionStarted { session }).into_iter().collect()
            }
            Some("api_retry") => {
                let (attempt, max) = (number_at(object, "/attempt"), number_at(object, "/max_retries"));
                let status = object.get("error_status").and_then(Value::as_u64);
                let problem = match status {
                    Some(status) => format!("the API answered {status}"),
                    None => "the API did not answer".to_owned(),
                };
                self.retrying = status.is_none_or(|status| status >= 500).then(|| problem.clone());
                for_people(&format!("{problem}: retry {attempt} of {max}"))
            }
            _ => Vec::new(),
        }
    }

    fn assistant(&mut self, object: &Value) -> Vec<EngineEvent> {
        let mut events = Vec::new();
        self.retrying = None;
        for block in object.pointer("/message/content").and_then(Value::as_array).into_iter().flatten() {
            match block.get("type").and_then(Value::as_str) {
                Some("text") => {
                    if let Some(text) = block.get("text").and_then(Value::as_str).filter(|text| !text.trim().is_empty())
                    {
                        self.last_words = one_line(text);
                        events.push(EngineEvent::Message { text: text.to_owned() });
                    }
                }
                Some("tool_use") => events.push(self.tool_use(block)),
                _ => {}
            }
        }
        if self.spent.count(object) {
            events.push(EngineEvent::Usage(self.usage()));
        }
        events
    }

    fn tool_use(&mut self, block: &Value) -> EngineEvent {
        if self.tool_calls.len() < TOOL_CALLS_MAX {
            self.tool_calls.extend(text_at(block, "/id"));
        }
        let tool = text_at(block, "/name").unwrap_or_default();
        if tool == ASKS_A_PERSON {
            let text = text_at(block, "/input/questions/0/question").or_else(|| text_at(block, "/input/question"));
            let text = text.unwrap_or_else(|| "(the question could not be read)".to_owned());
            self.question = Some(text.clone());
            return EngineEvent::Question { text };
        }
        self.question = None;
        let target = target(&tool, block.get("input").unwrap_or(&Value::Null));
        EngineEvent::ToolCall { tool, target }
    }

    fn end_tool_calls(&mut self, object: &Value) {
        for block in object.pointer("/message/content").and_then(Value::as_array).into_iter().flatten() {
            if let Some(id) = text_at(block, "/tool_use_id") {
                self.tool_calls.remove(&id);
            }
        }
    }

    fn rate_limit(&mut self, object: &Value) -> Vec<EngineEvent> {
        let Some(info) = object.get("rate_limit_info") else { return Vec::new() };
        let state = match info.get("status").and_then(Value::as_str) {
            Some("rejected") => WindowState::UsedUp,
            Some("allowed_warning") => WindowState::Nearing,
            _ => WindowState::Open,
        };
        let resets_at = info.get("resetsAt").and_then(Value::as_i64).and_then(|seconds| seconds.checked_mul(1_000));
        let limit = RateLimit {
            state,
            window: text_at(info, "/rateLimitType").map(|window| one_line(&window)),
            resets_at: resets_at.map(Timestamp::from_millis),
            utilisation: info.get("utilization").and_then(Value::as_f64),
        };
        self.window = (state == WindowState::UsedUp).then(|| limit.clone());
        vec![EngineEvent::RateLimit(limit)]
    }

    fn close(&mut self, object: &Value) -> Vec<EngineEvent> {
        let closing = ResultMessage::read(object, self.before, self.spent.total());
        let why = if closing.text.is_empty() { closing.subtype.clone() } else { closing.text.clone() };
        self.result = Some(closing);
        vec![EngineEvent::Usage(self.usage()), EngineEvent::Ended { why }]
    }

    fn tokens(&self) -> Option<Tokens> {
        let spent = self.spent.recorded(self.before).map_or_else(|| self.spent.known(), |recorded| recorded.tokens);
        let said = self.result.as_ref().and_then(|result| result.tokens);
        // Its stream reports each message's usage as it comes: without a report nothing was used.
        let is_told = self.has_begun || self.result.as_ref().is_some_and(|result| result.cost_usd.is_some());
        said.or(is_told.then_some(spent))
    }

    fn usage(&self) -> Usage {
        let tokens = self.tokens();
        let said = self.result.as_ref().and_then(|result| result.cost_usd);
        let recorded = || self.spent.recorded(self.before).map(|recorded| recorded.usd);
        let reckoned = || tokens.and_then(|tokens| self.prices.cost(self.model.as_deref(), tokens));
        Usage {
            tokens_in: tokens.map(|tokens| tokens.input),
            tokens_out: tokens.map(|tokens| tokens.output),
            cost_usd: said.or_else(recorded).or_else(reckoned),
            turns: self
                .result
                .as_ref()
                .and_then(|result| result.turns)
                .or((self.spent.turns > 0).then_some(self.spent.turns)),
        }
    }

    /// An exhausted window, if that ended the run.
    fn quota(&self, text: &str, status: Option<u64>) -> Option<RunVerdict> {
        let is_limit = self.window.is_some() || status == Some(429) || says_usage_limit(text);
        let (window, resets_at) = match &self.window {
            Some(limit) => (limit.window.clone(), limit.resets_at),
            None => (None, None),
        };
        let resets_at = resets_at.or_else(|| reset_time(text, self.clock.now()));
        let message = if text.is_empty() { "its usage window is used up".to_owned() } else { one_line(text) };
        is_limit.then_some(RunVerdict::QuotaWindow { window, resets_at, message })
    }

    fn without_closing_word(&self, exit: Exit) -> RunVerdict {
        if let Some(quota) = self.window.as_ref().and_then(|_| self.quota(&self.last_words, None)) {
            return quota;
        }
        // A budget that trips inside a subagent may leave no result.
        if let (Some(spent), Some(max)) = (self.usage().cost_usd, self.limits.usd)
            && spent >= max
        {
            return RunVerdict::stays(FailureReason::BudgetExceeded, over_budget(spent, max));
        }
        let said = if self.last_words.is_empty() { "nothing" } else { &self.last_words };
        match exit {
            Exit::Code(code @ 129..=192) => RunVerdict::may_pass(
                FailureReason::Crash,
                format!("it was ended by {} before its result; its last words: {said}", signal_name(code - 128)),
            ),
            Exit::Code(code) => RunVerdict::may_pass(
                FailureReason::EngineError,
                format!("it ended with exit code {code} and without a result; its last words: {said}"),
            ),
            Exit::Lingered => RunVerdict::may_pass(FailureReason::EngineError, "it gave no result".to_owned()),
        }
    }

    fn of_closing_word(&self, closing: &ResultMessage, exit: Exit) -> RunVerdict {
        let text = if closing.text.is_empty() { "it does not say why".to_owned() } else { one_line(&closing.text) };
        let failed = RunVerdict::may_pass;
        match closing.subtype.as_str() {
            "success" if !closing.is_error => self.of_success(closing, exit),
            "error_max_turns" => {
                let taken = domain::counted(closing.turns.unwrap_or(0), "turn");
                let max = self.limits.turns.unwrap_or(0);
                failed(FailureReason::Timeout, format!("it took {taken}, the limit `turns_max` is {max}"))
            }
            "error_max_budget_usd" => {
                let (spent, max) = (closing.cost_usd.unwrap_or(0.0), self.limits.usd.unwrap_or(0.0));
                RunVerdict::stays(FailureReason::BudgetExceeded, over_budget(spent, max))
            }
            _ if says_no_credit(&text) => RunVerdict::CreditExhausted { message: text },
            _ => self.quota(&text, closing.status).unwrap_or_else(|| match closing.status {
                _ if says_unknown_model(&text) => RunVerdict::unknown_model(&text),
                Some(401) => RunVerdict::SignedOut { message: text },
                Some(403) if says_signed_out(&text) => RunVerdict::SignedOut { message: text },
                // The credential is valid, but has no permission for what the job requests.
                Some(403) => RunVerdict::stays(FailureReason::EngineError, format!("the API answered 403: {text}")),
                Some(status @ 500..) => RunVerdict::Outage { message: format!("the API answered {status}: {text}") },
                Some(status) => failed(FailureReason::EngineError, format!("the API answered {status}: {text}")),
                None if says_signed_out(&text) => RunVerdict::SignedOut { message: text },
                None if says_outage(&text) => RunVerdict::Outage { message: text },
                None => {
                    failed(FailureReason::EngineError, format!("it failed (`{}`): {text}", one_line(&closing.subtype)))
                }
            }),
        }
    }

    fn of_success(&self, closing: &ResultMessage, exit: Exit) -> RunVerdict {
        if let Some(question) = &self.question {
            return RunVerdict::Asked { question: question.clone() };
        }
        // It was told that no person answers, and went on without.
        let refused = closing.refused.iter().filter(|refused| refused.tool != ASKS_A_PERSON);
        let refused: Vec<String> = refused.map(|refused| format!("{} ({})", refused.tool, refused.on)).collect();
        match exit {
            Exit::Code(0) | Exit::Lingered if refused.is_empty() => RunVerdict::EndedWell,
            Exit::Code(0) | Exit::Lingered => RunVerdict::EndedWithRefusals { refused },
            Exit::Code(code) => RunVerdict::may_pass(
                FailureReason::EngineError,
                format!("it said that it is done, and ended with exit code {code}"),
            ),
        }
    }
}

impl Session for ClaudeSession {
    fn translate(&mut self, line: &Line) -> Vec<EngineEvent> {
        match stream::read(line) {
            StreamLine::Object(object) => self.understand(&object),
            StreamLine::Text(text) => {
                self.last_words = one_line(&text);
                for_people(&text)
            }
            StreamLine::Nothing => Vec::new(),
        }
    }

    fn reply(&mut self) -> Reply {
        Reply::HangUp
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn poll_files(&mut self) {
        if self.result.is_none() {
            self.record.read_on(&mut self.spent);
        }
    }

    /// A stopped run has no result message; its program's record has its usage.
    fn settle(&mut self) {
        self.credential = None;
        if self.result.is_none() {
            self.record.read_to_end(&mut self.spent);
        }
    }

    fn judge(&mut self, exit: Exit) -> RunVerdict {
        match &self.result {
            Some(closing) => self.of_closing_word(closing, exit),
            None => self.without_closing_word(exit),
        }
    }

    fn insights(&self) -> RunInsights {
        let Usage { tokens_in, tokens_out, cost_usd, turns } = self.usage();
        RunInsights { tokens_in, tokens_out, cost_usd, turns, ..RunInsights::default() }
    }

    fn pending(&self) -> Pending {
        match &self.retrying {
            Some(problem) => Pending::Provider(problem.clone()),
            None if self.tool_calls.is_empty() => Pending::Answer,
            None => Pending::ToolCall,
        }
    }
}

fn tool_failures(object: &Value) -> Vec<EngineEvent> {
    let blocks = object.pointer("/message/content").and_then(Value::as_array).into_iter().flatten();
    let failed = blocks.filter(|block| block.get("is_error").and_then(Value::as_bool) == Some(true));
    let text = |block: &Value| text_at(block, "/content").or_else(|| text_at(block, "/content/0/text"));
    failed.map(|block| EngineEvent::ToolFailed { text: text(block).unwrap_or_default() }).collect()
}

/// A tool's target, by the names of its input fields.
pub(super) fn target(tool: &str, input: &Value) -> Option<Target> {
    let at = |name: &str| text_at(input, name);
    let file = || at("/file_path").or_else(|| at("/notebook_path")).or_else(|| at("/path"));
    match tool {
        "Bash" => at("/command").map(Target::Command),
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => file().map(Target::Edit),
        "Read" | "LS" => file().map(Target::File),
        _ => {
            let other = ["/pattern", "/query", "/url", "/description", "/prompt"].iter().find_map(|name| at(name));
            other
                .map(Target::Other)
                .or_else(|| file().map(Target::File))
                .or_else(|| at("/command").map(Target::Command))
        }
    }
}

fn over_budget(spent: f64, max: f64) -> String {
    Limit::Usd { spent, max }.to_string()
}

fn says_usage_limit(text: &str) -> bool {
    let text = text.to_lowercase().replace('\u{2019}', "'");
    let subject = ["usage limit", "session limit", "weekly limit", "5-hour limit", "hit your limit"];
    subject.iter().any(|words| text.contains(words)) && (text.contains("reset") || text.contains("reached"))
}

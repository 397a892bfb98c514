//! Translates Codex's stream and judges its end.

use std::sync::Arc;

use domain::{Clock, FailureReason, RunInsights};
use sandbox::{Line, Source, signal_name};
use serde_json::Value;

use super::rollout::Rollout;
use super::threads::Threads;
use crate::error_patterns::{says_no_credit, says_outage, says_signed_out, says_unknown_model, says_usage_limit};
use crate::home::CredentialSync;
use crate::prices::{Prices, Tokens};
use crate::reset_time::reset_time;
use crate::stream::{self, StreamLine, for_people, number_at, one_line, text_at};
use crate::turn_counter::TurnCounter;
use crate::{EngineEvent, Exit, Pending, RateLimit, Reply, RunVerdict, Session, Target, Usage, WindowState};

/// Follows one run of `codex exec --json`.
pub(super) struct CodexSession {
    /// The credential in the job's home, copied back when the program has ended.
    pub(super) credential: Option<CredentialSync>,
    model: Option<String>,
    prices: Prices,
    threads: Threads,
    rollout: Rollout,
    clock: Arc<dyn Clock>,
    thread: String,
    /// The thread's usage since its start.
    total: Option<Tokens>,
    /// This run's share of it.
    tokens: Option<Tokens>,
    /// Whether the program reported it, which it does at the end of its turn.
    is_told: bool,
    /// Whether its one turn has started.
    has_begun: bool,
    /// The model's answers according to the stream, until its record has their number.
    rounds: TurnCounter,
    /// Tools in progress.
    running: u32,
    end: TurnEnd,
    error: Option<String>,
    /// The last error that the turn continued after, if any.
    warning: Option<String>,
    last_words: String,
    on_standard_error: String,
}

/// The fields of an item's line.
#[derive(Clone, Copy)]
enum Step {
    Begins,
    Ends,
}

/// How the one turn of a run ended.
enum TurnEnd {
    NotYet,
    Completed,
    Failed(String),
}

impl CodexSession {
    pub(super) fn new(
        model: Option<String>,
        prices: Prices,
        threads: Threads,
        rollout: Rollout,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            credential: None,
            model,
            prices,
            threads,
            rollout,
            clock,
            thread: String::new(),
            total: None,
            tokens: None,
            is_told: false,
            has_begun: false,
            rounds: TurnCounter::default(),
            running: 0,
            end: TurnEnd::NotYet,
            error: None,
            warning: None,
            last_words: String::new(),
            on_standard_error: String::new(),
        }
    }

    fn understand(&mut self, object: &Value) -> Vec<EngineEvent> {
        match object.get("type").and_then(Value::as_str).unwrap_or_default() {
            "thread.started" => {
                self.thread = text_at(object, "/thread_id").unwrap_or_default();
                vec![EngineEvent::SessionStarted { session: self.thread.clone() }]
            }
            "turn.started" => {
                self.has_begun = true;
                Vec::new()
            }
            "item.started" => {
                self.error = None;
                self.count(object, Step::Begins);
                self.item_started(object)
            }
            "item.completed" => {
                if object.pointer("/item/type").and_then(Value::as_str) != Some("error") {
                    self.error = None;
                }
                self.count(object, Step::Ends);
                self.item_completed(object)
            }
            "turn.completed" => {
                self.rollout.tokens_so_far(&self.thread);
                self.complete(object)
            }
            "turn.failed" => self.fail(object),
            "error" => self.note_error(object),
            _ => Vec::new(),
        }
    }

    /// Counts the model's answers, and reads their number from its record.
    fn count(&mut self, object: &Value, step: Step) {
        let item = object.pointer("/item/type").and_then(Value::as_str).unwrap_or_default();
        match (item, step) {
            ("agent_message" | "reasoning", _) => self.rounds.speaks(),
            ("command_execution" | "file_change" | "mcp_tool_call" | "web_search", Step::Begins) => {
                self.rounds.speaks();
                self.running = self.running.saturating_add(1);
            }
            ("command_execution" | "file_change" | "mcp_tool_call" | "web_search", Step::Ends) => {
                // Not all of them are announced.
                if self.running == 0 {
                    self.rounds.speaks();
                }
                self.running = self.running.saturating_sub(1);
                self.rounds.hears();
            }
            _ => return,
        }
        self.rollout.tokens_so_far(&self.thread);
    }

    /// The model's answers. A turn that failed before the first counts one attempt.
    fn turns(&self) -> Option<u32> {
        self.rollout.answers().or(self.rounds.count()).or(self.has_begun.then_some(1))
    }

    fn item_started(&mut self, object: &Value) -> Vec<EngineEvent> {
        let call = |tool: &str, target| vec![EngineEvent::ToolCall { tool: tool.to_owned(), target }];
        match object.pointer("/item/type").and_then(Value::as_str).unwrap_or_default() {
            "command_execution" => {
                call("Shell", text_at(object, "/item/command").map(|line| Target::Command(command(&line).to_owned())))
            }
            "mcp_tool_call" => {
                let tool = text_at(object, "/item/tool").unwrap_or_default();
                call(&tool, text_at(object, "/item/server").map(Target::Other))
            }
            "web_search" => call("WebSearch", text_at(object, "/item/query").map(Target::Other)),
            _ => Vec::new(),
        }
    }

    fn item_completed(&mut self, object: &Value) -> Vec<EngineEvent> {
        match object.pointer("/item/type").and_then(Value::as_str).unwrap_or_default() {
            "agent_message" => {
                let text = object.pointer("/item/text").and_then(Value::as_str).unwrap_or_default();
                self.last_words = one_line(text);
                vec![EngineEvent::Message { text: text.to_owned() }]
            }
            "file_change" => {
                let changes = object.pointer("/item/changes").and_then(Value::as_array).into_iter().flatten();
                let edit = |path| EngineEvent::ToolCall { tool: "Edit".to_owned(), target: Some(Target::Edit(path)) };
                changes.filter_map(|change| text_at(change, "/path")).map(edit).collect()
            }
            "command_execution" => {
                let exit = object.pointer("/item/exit_code").and_then(Value::as_i64).unwrap_or(0);
                let output = text_at(object, "/item/aggregated_output").unwrap_or_default();
                let failed = EngineEvent::ToolFailed { text: format!("exit code {exit}: {output}") };
                (exit != 0).then_some(failed).into_iter().collect()
            }
            // Often only a warning: the end of the turn decides.
            "error" => {
                let text = text_at(object, "/item/message").unwrap_or_default();
                self.warning = Some(one_line(&text));
                for_people(&format!("! {text}"))
            }
            _ => Vec::new(),
        }
    }

    fn complete(&mut self, object: &Value) -> Vec<EngineEvent> {
        self.end = TurnEnd::Completed;
        if let Some(usage) = object.get("usage") {
            let total = Tokens {
                input: number_at(usage, "/input_tokens"),
                cached: number_at(usage, "/cached_input_tokens"),
                output: number_at(usage, "/output_tokens"),
            };
            self.charge(total);
            self.is_told = true;
        }
        vec![EngineEvent::Usage(self.usage()), EngineEvent::Ended { why: self.last_words.clone() }]
    }

    fn charge(&mut self, total: Tokens) {
        self.tokens = Some(self.threads.own_share(&self.thread, total));
        self.total = Some(total);
    }

    fn find_model(&mut self) {
        if self.model.is_none() {
            self.model = self.rollout.model_of(&self.thread);
        }
    }

    fn fail(&mut self, object: &Value) -> Vec<EngineEvent> {
        let message = text_at(object, "/error/message").unwrap_or_default();
        let mut events = self.limit_event(&message);
        self.end = TurnEnd::Failed(message.clone());
        events.push(EngineEvent::Ended { why: message });
        events
    }

    fn note_error(&mut self, object: &Value) -> Vec<EngineEvent> {
        let message = text_at(object, "/message").unwrap_or_default();
        self.error = Some(message.clone());
        for_people(&format!("! {message}"))
    }

    fn limit_event(&self, message: &str) -> Vec<EngineEvent> {
        let resets_at = reset_time(message, self.clock.now());
        let limit = RateLimit { state: WindowState::UsedUp, window: None, resets_at, utilisation: None };
        let is_limit = says_usage_limit(message) && !says_no_credit(message);
        is_limit.then_some(EngineEvent::RateLimit(limit)).into_iter().collect()
    }

    fn usage(&self) -> Usage {
        Usage {
            tokens_in: self.tokens.map(|tokens| tokens.input),
            tokens_out: self.tokens.map(|tokens| tokens.output),
            cost_usd: self.tokens.and_then(|tokens| self.prices.cost(self.model.as_deref(), tokens)),
            turns: self.turns(),
        }
    }

    fn of_failure(&self, message: &str) -> RunVerdict {
        let message = one_line(message);
        if says_no_credit(&message) {
            return RunVerdict::CreditExhausted { message };
        }
        if says_usage_limit(&message) {
            let resets_at = reset_time(&message, self.clock.now());
            return RunVerdict::QuotaWindow { window: None, resets_at, message };
        }
        if says_signed_out(&message) {
            return RunVerdict::SignedOut { message };
        }
        if says_unknown_model(&message) {
            return RunVerdict::unknown_model(&message);
        }
        // The credential is valid, but has no permission for what the job requests.
        if message.contains("403 Forbidden") {
            return RunVerdict::stays(FailureReason::EngineError, format!("its turn failed: {message}"));
        }
        if says_outage(&message) {
            return RunVerdict::Outage { message };
        }
        RunVerdict::may_pass(FailureReason::EngineError, format!("its turn failed: {message}"))
    }

    /// A refused call shows neither in its stream nor in its exit code.
    fn of_completion(&self) -> RunVerdict {
        match self.rollout.refused() {
            [] => RunVerdict::EndedWell,
            refused => RunVerdict::EndedWithRefusals { refused: refused.to_vec() },
        }
    }

    fn without_an_end(&self, exit: Exit) -> RunVerdict {
        let is_known = |error: &&str| {
            says_no_credit(error) || says_usage_limit(error) || says_signed_out(error) || says_outage(error)
        };
        if let Some(error) =
            [self.error.as_deref(), Some(&*self.on_standard_error)].into_iter().flatten().find(is_known)
        {
            return self.of_failure(error);
        }
        let (error, warning) = (self.error.as_deref().unwrap_or_default(), self.warning.as_deref().unwrap_or_default());
        let words = [error, &self.on_standard_error, &self.last_words, warning];
        let said = words.into_iter().find(|words| !words.is_empty()).unwrap_or("nothing");
        let said = one_line(said);
        match exit {
            Exit::Code(code @ 129..=192) => RunVerdict::may_pass(
                FailureReason::Crash,
                format!("it was ended by {} within its turn; its last words: {said}", signal_name(code - 128)),
            ),
            Exit::Code(code) => RunVerdict::may_pass(
                FailureReason::EngineError,
                format!("it ended with exit code {code} within its turn; its last words: {said}"),
            ),
            Exit::Lingered => RunVerdict::may_pass(FailureReason::EngineError, "its turn never ended".to_owned()),
        }
    }
}

impl Session for CodexSession {
    fn translate(&mut self, line: &Line) -> Vec<EngineEvent> {
        match stream::read(line) {
            StreamLine::Object(object) => self.understand(&object),
            StreamLine::Text(text) => {
                if line.source == Source::Err {
                    self.on_standard_error = one_line(&text);
                }
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

    /// It reports its usage only at the end of its turn; its own record does so after every answer.
    fn poll_files(&mut self) {
        if self.is_told || self.thread.is_empty() {
            return;
        }
        self.find_model();
        if let Some(total) = self.rollout.tokens_so_far(&self.thread) {
            self.charge(total);
        }
    }

    /// A turn that was cut off or failed has not reported its usage; its own record has.
    fn settle(&mut self) {
        self.credential = None;
        self.find_model();
        self.rollout.tokens_so_far(&self.thread);
        if !self.is_told {
            match self.rollout.tokens_of(&self.thread) {
                Some(total) => self.charge(total),
                // A rejected request is not billed: a turn that failed before its first answer has used nothing.
                None if matches!(self.end, TurnEnd::Failed(_)) && self.rollout.holds(&self.thread) => {
                    self.tokens.get_or_insert_default();
                }
                None => {}
            }
        }
        // Not before the end: until then a factory that dies leaves the run's whole share to recovery.
        if let Some(total) = self.total {
            self.threads.remember(&self.thread, total);
        }
    }

    fn judge(&mut self, exit: Exit) -> RunVerdict {
        match (&self.end, exit) {
            (TurnEnd::Completed, Exit::Code(0) | Exit::Lingered) => self.of_completion(),
            (TurnEnd::Completed, Exit::Code(code)) => {
                let error = self.error.as_deref().or(self.warning.as_deref()).unwrap_or("it does not say why");
                RunVerdict::may_pass(
                    FailureReason::EngineError,
                    format!("it completed its turn, and ended with exit code {code}: {}", one_line(error)),
                )
            }
            (TurnEnd::Failed(message), _) => self.of_failure(message),
            (TurnEnd::NotYet, exit) => self.without_an_end(exit),
        }
    }

    fn insights(&self) -> RunInsights {
        let Usage { tokens_in, tokens_out, cost_usd, turns } = self.usage();
        RunInsights { tokens_in, tokens_out, cost_usd, turns, ..RunInsights::default() }
    }

    fn pending(&self) -> Pending {
        match &self.error {
            // It repeats this, and continues by itself when the network is back.
            Some(error) if says_outage(error) => Pending::Provider(one_line(error)),
            _ if self.running > 0 => Pending::ToolCall,
            _ => Pending::Answer,
        }
    }
}

/// `cargo test` of `/bin/bash -lc 'cargo test'`.
fn command(line: &str) -> &str {
    let Some((shell, rest)) = line.split_once(" -lc ") else { return line };
    let quoted = rest.trim();
    let inner = quoted.strip_prefix(['\'', '"']).and_then(|text| text.strip_suffix(['\'', '"']));
    if shell.contains(' ') { line } else { inner.unwrap_or(quoted) }
}

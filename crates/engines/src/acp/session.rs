//! One conversation: initialize, a session, the prompt, and the agent's requests.

use std::collections::VecDeque;
use std::path::PathBuf;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    CancelNotification, ClientCapabilities, Error, ErrorCode, FileSystemCapabilities, Implementation,
    InitializeRequest, InitializeResponse, LoadSessionRequest, McpServer, McpServerStdio, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse, ResumeSessionRequest, SessionId, SessionModeId,
    SetSessionModeRequest, StopReason,
};
use domain::{FailureReason, RunInsights};
use sandbox::{Line, Source, exit_words};

use super::Permissions;
use super::answering::RequestHandler;
use super::updates::Updates;
use super::wire::{self, Incoming, Params};
use crate::error_patterns::{says_no_credit, says_outage, says_unknown_model, says_usage_limit};
use crate::prompt::Memory;
use crate::{EngineEvent, EngineRequest, Exit, Pending, Reply, RunVerdict, Session, ToolServer};

/// One run of an agent that speaks the protocol.
pub(super) struct AcpSession {
    /// The prompts for an agent that resumes the job, and for one that does not.
    prompts: [String; 2],
    worktree: PathBuf,
    tools: Vec<McpServer>,
    /// A session of an earlier run to resume.
    earlier: Option<SessionId>,
    /// The agent's own permission mode.
    mode: Option<SessionModeId>,
    step: Step,
    session: Option<SessionId>,
    to_say: VecDeque<Vec<u8>>,
    answering: RequestHandler,
    updates: Updates,
    last_words: String,
}

/// The pending request.
enum Step {
    Hello,
    Opening(Opening),
    ChangingMode(Opening),
    Working,
    Over(Ending),
}

/// How the session is opened. Only a new one reports its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Anew,
    Again,
}

enum Ending {
    Stopped(StopReason),
    Refused(Error),
    /// It violates the protocol.
    Strange(String),
}

const HELLO: i64 = 0;
const OPEN: i64 = 1;
const OPEN_ANEW: i64 = 2;
const PROMPT: i64 = 3;
const MODE: i64 = 4;

impl AcpSession {
    pub(super) fn new(request: &EngineRequest, mode: Option<&str>, permissions: Permissions) -> Self {
        let files = FileSystemCapabilities::new().read_text_file(true).write_text_file(true);
        let hello = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::new().fs(files))
            .client_info(Implementation::new("gigafactory", env!("CARGO_PKG_VERSION")));
        Self {
            prompts: [Memory::Resumed, Memory::New].map(|memory| request.prompt_with(memory)),
            worktree: request.worktree.clone(),
            tools: request.tools.iter().map(tool_server).collect(),
            earlier: request.session.as_deref().map(SessionId::new),
            mode: mode.map(SessionModeId::new),
            step: Step::Hello,
            session: None,
            to_say: VecDeque::from([wire::request(HELLO, "initialize", &hello)]),
            answering: RequestHandler::new(&request.worktree, permissions),
            updates: Updates::default(),
            last_words: String::new(),
        }
    }

    fn ask(&mut self, number: i64, method: &str, params: &impl serde::Serialize) {
        self.to_say.push_back(wire::request(number, method, params));
    }

    /// Takes an answer to a request of ours.
    fn take(&mut self, number: i64, outcome: Result<Params, Error>) -> Vec<EngineEvent> {
        match (&self.step, number) {
            (Step::Hello, HELLO) => self.greeted(outcome),
            (Step::Opening(Opening::Again), OPEN) => self.opened_again(outcome),
            (Step::Opening(Opening::Anew), OPEN_ANEW) => self.opened_anew(outcome),
            (Step::ChangingMode(opening), MODE) => match (*opening, outcome) {
                (opening, Ok(_)) => {
                    self.prompt(opening);
                    Vec::new()
                }
                (_, Err(error)) => self.end(Ending::Refused(error)),
            },
            (Step::Working, PROMPT) => self.prompted(outcome),
            // An answer without a request.
            _ => Vec::new(),
        }
    }

    fn greeted(&mut self, outcome: Result<Params, Error>) -> Vec<EngineEvent> {
        let hello: InitializeResponse = match self.expect(outcome) {
            Ok(hello) => hello,
            Err(ended) => return ended,
        };
        if hello.protocol_version != ProtocolVersion::V1 {
            let version = hello.protocol_version;
            return self.end(Ending::Strange(format!("it speaks version {version} of the protocol, not 1")));
        }
        let can = &hello.agent_capabilities;
        match self.earlier.clone() {
            Some(session) if can.session_capabilities.resume.is_some() => {
                let resume = ResumeSessionRequest::new(session, &self.worktree).mcp_servers(self.tools.clone());
                self.ask(OPEN, "session/resume", &resume);
                self.step = Step::Opening(Opening::Again);
            }
            Some(session) if can.load_session => {
                let load = LoadSessionRequest::new(session, &self.worktree).mcp_servers(self.tools.clone());
                self.ask(OPEN, "session/load", &load);
                self.step = Step::Opening(Opening::Again);
            }
            _ => self.open_anew(),
        }
        Vec::new()
    }

    fn open_anew(&mut self) {
        let new = NewSessionRequest::new(&self.worktree).mcp_servers(self.tools.clone());
        self.ask(OPEN_ANEW, "session/new", &new);
        self.step = Step::Opening(Opening::Anew);
    }

    fn opened_again(&mut self, outcome: Result<Params, Error>) -> Vec<EngineEvent> {
        match (outcome, self.earlier.clone()) {
            (Ok(_), Some(session)) => {
                self.updates.begin_again();
                self.begin(session, Opening::Again)
            }
            // Sessions are the agent's own; this host may not have it. The work in the worktree is there all the same.
            _ => {
                self.open_anew();
                Vec::new()
            }
        }
    }

    fn opened_anew(&mut self, outcome: Result<Params, Error>) -> Vec<EngineEvent> {
        match self.expect::<NewSessionResponse>(outcome) {
            Ok(opened) => {
                self.updates.begin();
                self.begin(opened.session_id, Opening::Anew)
            }
            Err(ended) => ended,
        }
    }

    fn begin(&mut self, session: SessionId, opening: Opening) -> Vec<EngineEvent> {
        self.session = Some(session.clone());
        let events = vec![EngineEvent::SessionStarted { session: session.to_string() }];
        match self.mode.clone() {
            Some(mode) => {
                self.ask(MODE, "session/set_mode", &SetSessionModeRequest::new(session, mode));
                self.step = Step::ChangingMode(opening);
            }
            None => self.prompt(opening),
        }
        events
    }

    fn prompt(&mut self, opening: Opening) {
        let [remembered, whole] = &self.prompts;
        let prompt = match opening {
            Opening::Again => remembered,
            Opening::Anew => whole,
        };
        let session = self.session.clone().unwrap_or_else(|| SessionId::new(""));
        let prompt = PromptRequest::new(session, vec![prompt.as_str().into()]);
        self.ask(PROMPT, "session/prompt", &prompt);
        self.step = Step::Working;
    }

    fn prompted(&mut self, outcome: Result<Params, Error>) -> Vec<EngineEvent> {
        if let Ok(result) = &outcome {
            self.updates.end_of_turn(result);
        }
        let mut events = self.updates.rest();
        events.extend(match self.expect::<PromptResponse>(outcome) {
            Ok(answer) => self.end(Ending::Stopped(answer.stop_reason)),
            Err(ended) => ended,
        });
        events
    }

    /// The content of an answer; any other content, or a refusal, ends the conversation.
    fn expect<T: serde::de::DeserializeOwned>(
        &mut self,
        outcome: Result<Params, Error>,
    ) -> Result<T, Vec<EngineEvent>> {
        match outcome.map(|result| result.read()) {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(error)) => Err(self.end(Ending::Strange(format!("its answer cannot be read: {error}")))),
            Err(error) => Err(self.end(Ending::Refused(error))),
        }
    }

    fn end(&mut self, ending: Ending) -> Vec<EngineEvent> {
        let why = ending.to_string();
        self.step = Step::Over(ending);
        vec![EngineEvent::Ended { why }]
    }
}

/// The run's own tools. Every agent that speaks the protocol can start a server on standard streams.
fn tool_server(tools: &ToolServer) -> McpServer {
    McpServer::Stdio(McpServerStdio::new(ToolServer::NAME, &tools.program).args(tools.args.clone()))
}

impl Session for AcpSession {
    fn translate(&mut self, line: &Line) -> Vec<EngineEvent> {
        let heard = if line.source == Source::Out { wire::hear(&line.text) } else { None };
        match heard {
            Some(Incoming::Answer { number, outcome }) => self.take(number, outcome),
            Some(Incoming::Notification { method, params }) if method == "session/update" => {
                let replayed = !matches!(self.step, Step::Working);
                self.updates.tell(&params, replayed)
            }
            Some(Incoming::Notification { .. }) => Vec::new(),
            Some(Incoming::Request { id, method, params }) => {
                let (answer, events) = self.answering.answer(&method, &params, &self.updates);
                self.to_say.push_back(wire::answer(&id, answer));
                events
            }
            None => {
                if !line.text.trim().is_empty() {
                    self.last_words = domain::escape_for_terminal(line.text.trim());
                }
                vec![EngineEvent::Output { text: line.text.clone() }]
            }
        }
    }

    fn reply(&mut self) -> Reply {
        match (self.to_say.pop_front(), &self.step) {
            (Some(bytes), _) => Reply::Say(bytes),
            (None, Step::Over(_)) => Reply::HangUp,
            (None, _) => Reply::Wait,
        }
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        let session = self.session.clone().filter(|_| matches!(self.step, Step::Working))?;
        Some(wire::notification("session/cancel", &CancelNotification::new(session)))
    }

    fn poll_files(&mut self) {}

    fn settle(&mut self) {}

    fn judge(&mut self, exit: Exit) -> RunVerdict {
        let ending = match &self.step {
            Step::Over(ending) => ending,
            Step::Hello | Step::Opening(_) | Step::ChangingMode(_) | Step::Working => {
                let Exit::Code(code) = exit else {
                    return RunVerdict::may_pass(FailureReason::EngineError, "it was ended".to_owned());
                };
                let message =
                    format!("it left with {} before its turn was over: {}", exit_words(code), self.last_words);
                return RunVerdict::may_pass(FailureReason::EngineError, message);
            }
        };
        let message = ending.to_string();
        match ending {
            Ending::Stopped(StopReason::EndTurn) => match self.answering.denied() {
                [] => RunVerdict::EndedWell,
                denied => RunVerdict::EndedWithRefusals { refused: denied.to_vec() },
            },
            Ending::Stopped(StopReason::Refusal) | Ending::Strange(_) => {
                RunVerdict::stays(FailureReason::EngineError, message)
            }
            Ending::Stopped(_) => RunVerdict::may_pass(FailureReason::EngineError, message),
            Ending::Refused(error) => refused(error),
        }
    }

    fn insights(&self) -> RunInsights {
        self.updates.insights()
    }

    fn pending(&self) -> Pending {
        if self.updates.is_in_tool_call() { Pending::ToolCall } else { Pending::Answer }
    }
}

/// The protocol has no field for a usage window: agents report it as text.
fn refused(error: &Error) -> RunVerdict {
    let message = domain::escape_for_terminal(&error.message);
    let said = message.to_ascii_lowercase();
    if error.code == ErrorCode::AuthRequired {
        return RunVerdict::SignedOut { message };
    }
    if says_no_credit(&message) {
        return RunVerdict::CreditExhausted { message };
    }
    if says_usage_limit(&message) || said.contains("quota") {
        let resets_at = error.data.as_ref().and_then(super::updates::reset_of);
        return RunVerdict::QuotaWindow { window: None, resets_at, message };
    }
    if says_unknown_model(&message) {
        return RunVerdict::unknown_model(&message);
    }
    if says_outage(&message) {
        return RunVerdict::Outage { message };
    }
    RunVerdict::may_pass(FailureReason::EngineError, message)
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped(StopReason::EndTurn) => write!(f, "it ended its turn"),
            Self::Stopped(StopReason::MaxTokens) => write!(f, "it came to the end of its tokens"),
            Self::Stopped(StopReason::MaxTurnRequests) => write!(f, "it came to the end of its turns"),
            Self::Stopped(StopReason::Refusal) => write!(f, "it refused to go on"),
            Self::Stopped(StopReason::Cancelled) => write!(f, "it says that it was cancelled"),
            Self::Stopped(reason) => write!(f, "it stopped: {reason:?}"),
            Self::Refused(error) => write!(f, "{}", domain::escape_for_terminal(&error.message)),
            Self::Strange(why) => write!(f, "{why}"),
        }
    }
}

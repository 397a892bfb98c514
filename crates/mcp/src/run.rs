//! The tools for the agent inside a run [B11]. They call the factory over the run's socket, name no job and hold no token.

mod socket;

use std::path::PathBuf;

use domain::clean_line;
use protocol::{RUN_QUESTION_LEN_MAX, RunAnswer, RunContext, RunRequest, RunTool};
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, Implementation, ServerCapabilities, ServerConfig, Tool};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;

pub use socket::RunSocketError;

use crate::failure::ToolFailure;
use crate::schema::compact;
use socket::RunSocket;

/// All tools of a run.
const ALL: [RunTool; 5] =
    [RunTool::GetContext, RunTool::ReportProgress, RunTool::AskHuman, RunTool::SaveCheckpoint, RunTool::AttachArtifact];

/// The tools of one run.
#[derive(Clone)]
pub struct RunTools {
    socket: RunSocket,
    router: ToolRouter<Self>,
}

/// No parameters: the run is the one that the socket belongs to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProgressReport {
    /// One line: what you do now
    text: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    /// What a person has to decide, with the choices
    question: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Attachment {
    /// The file, below your working directory
    path: String,
    /// Another name for it
    #[serde(default)]
    name: Option<String>,
}

impl RunTools {
    /// The tools that the factory offers to the run of this socket.
    pub async fn connect(path: PathBuf) -> Result<Self, RunSocketError> {
        let socket = RunSocket::new(path);
        let RunAnswer::Offer { tools } = socket.call(&RunRequest::Offer {}).await? else {
            return Err(RunSocketError::Unreadable("it offers no tools".to_owned()));
        };
        let mut router = Self::tool_router();
        for tool in ALL.iter().filter(|tool| !tools.contains(tool)) {
            router.remove_route(tool.name());
        }
        for route in router.map.values_mut() {
            route.attr = compact(route.attr.clone());
        }
        Ok(Self { socket, router })
    }

    /// The tools that it offers.
    pub fn tools(&self) -> Vec<Tool> {
        self.router.list_all()
    }

    async fn call(&self, request: RunRequest) -> Result<RunAnswer, ToolFailure> {
        match self.socket.call(&request).await {
            Ok(RunAnswer::Refused { code, message }) => Err(ToolFailure::new(&code, message)),
            Ok(answer) => Ok(answer),
            Err(RunSocketError::Ended) => {
                Err(ToolFailure::new("run_ended", "this run has ended, its work is no longer yours; stop now"))
            }
            Err(error) => Err(ToolFailure::new("factory_unavailable", format!("{error}; go on without this tool"))),
        }
    }
}

#[tool_router]
impl RunTools {
    /// Show your job: id, attempt, what is left of its budget and time, the last checkpoint.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn get_context(&self, Parameters(Nothing {}): Parameters<Nothing>) -> Result<CallToolResult, ToolFailure> {
        match self.call(RunRequest::Context {}).await? {
            RunAnswer::Context(context) => {
                let mut result = CallToolResult::success(vec![ContentBlock::text(context_text(&context))]);
                result.structured_content = serde_json::to_value(&*context).ok();
                Ok(result)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Show people what you do now. Costs nothing; call it when you begin a new step.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn report_progress(
        &self,
        Parameters(report): Parameters<ProgressReport>,
    ) -> Result<CallToolResult, ToolFailure> {
        match self.call(RunRequest::Progress { text: clean_line(&report.text) }).await? {
            RunAnswer::Noted => Ok(said("noted")),
            other => Err(unexpected(&other)),
        }
    }

    /// Ask a person, only if you cannot go on without a decision. Your work is saved and the job is parked: stop after this call. You get the answer when the job goes on.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn ask_human(&self, Parameters(asked): Parameters<Question>) -> Result<CallToolResult, ToolFailure> {
        let question = asked.question.trim();
        if question.is_empty() || question.len() > RUN_QUESTION_LEN_MAX {
            let text = format!("a question has 1 to {RUN_QUESTION_LEN_MAX} bytes; shorten it");
            return Err(ToolFailure::new("invalid_question", text));
        }
        match self.call(RunRequest::Ask { question: question.to_owned() }).await? {
            RunAnswer::Parked { saved } => {
                let saved = saved.map_or_else(String::new, |sha| format!(" Your work is saved as {sha}."));
                Ok(said(&format!(
                    "parked, stop now.{saved} The job waits for a person; the answer is in the prompt of its next run."
                )))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Save your work in progress now, for the case that this machine fails. It is also saved from time to time.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn save_checkpoint(
        &self,
        Parameters(Nothing {}): Parameters<Nothing>,
    ) -> Result<CallToolResult, ToolFailure> {
        match self.call(RunRequest::Checkpoint {}).await? {
            RunAnswer::Saved { saved: Some(sha) } => Ok(said(&format!("saved as {sha}"))),
            RunAnswer::Saved { saved: None } => Ok(said("nothing to save")),
            other => Err(unexpected(&other)),
        }
    }

    /// Attach a file to your job for people to download: a report, a screenshot, a build. It is not committed. The same file is attached once.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn attach_artifact(
        &self,
        Parameters(Attachment { path, name }): Parameters<Attachment>,
    ) -> Result<CallToolResult, ToolFailure> {
        match self.call(RunRequest::Attach { path, name }).await? {
            RunAnswer::Attached { name, bytes } => {
                Ok(said(&format!("attached as {name} ({})", domain::byte_size(bytes))))
            }
            other => Err(unexpected(&other)),
        }
    }
}

#[tool_handler(router = self.router)]
impl ServerHandler for RunTools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("gigafactory-run", env!("CARGO_PKG_VERSION")))
            .with_instructions("You work on a job of Gigafactory. These tools are about this job.")
    }
}

fn said(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn unexpected(answer: &RunAnswer) -> ToolFailure {
    ToolFailure::new("internal", format!("unexpected answer of the factory: {}", clean_line(&format!("{answer:?}"))))
}

/// "No limit" and "nothing left" are said in words: neither may look like the other.
fn context_text(context: &RunContext) -> String {
    let usd = context.usd_left.map_or_else(|| "no limit".to_owned(), |usd| format!("{} left", domain::dollars(usd)));
    let tokens = context.tokens_left.map_or_else(|| "no limit".to_owned(), |tokens| format!("{tokens} left"));
    let none = || "none".to_owned();
    let saved = context.checkpoint.as_ref().map_or_else(none, |saved| saved.sha.to_string());
    let repo = context.repo.as_ref().map_or_else(none, ToString::to_string);
    let lines = [
        format!("job: {} {}", context.job_id, clean_line(&context.title)),
        format!("attempt: {} on factory {}", context.attempt, context.factory_id),
        format!("repository: {repo}"),
        format!("money: {usd}"),
        format!("tokens: {tokens}"),
        format!("time: {} s left", context.seconds_left),
        format!("checkpoint: {saved}"),
    ];
    lines.join("\n")
}

#[cfg(test)]
mod tests;

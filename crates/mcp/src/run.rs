//! The tools for the agent inside a run [B11]. They call the factory over the run's socket, name no job and hold no token.

mod socket;

use std::path::PathBuf;

use domain::clean_line;
use protocol::{
    NewSubtask, RUN_QUESTION_LEN_MAX, RunAnswer, RunContext, RunRequest, RunTool, SUBTASK_INSTRUCTIONS_LEN_MAX,
    SubtaskBudget, SubtaskList, SubtaskResponse,
};
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, Implementation, ServerCapabilities, ServerConfig, Tool};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use socket::RunSocketError;

use crate::failure::ToolFailure;
use crate::schema::compact;
use socket::RunSocket;

/// All tools of a run.
const ALL: [RunTool; 8] = [
    RunTool::GetContext,
    RunTool::ReportProgress,
    RunTool::AskHuman,
    RunTool::SaveCheckpoint,
    RunTool::CreateSubtask,
    RunTool::ListSubtasks,
    RunTool::WaitForSubtasks,
    RunTool::AttachArtifact,
];

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
struct Subtask {
    /// One line for people
    title: String,
    /// What its agent has to do, complete: it does not see your conversation
    instructions: String,
    /// US dollars of your job's budget to reserve; needed if that is limited
    budget_usd: Option<f64>,
    /// Tokens of your job's budget to reserve; needed if those are limited
    budget_tokens: Option<u64>,
    /// Whether it may end without changing a file, such as a search
    #[serde(default)]
    allow_empty: bool,
    /// Its name among your subtasks: the same key gives the same subtask
    key: Option<String>,
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

    /// Give a part of your job to another agent, which works at the same time on a branch of its own. It has your repository, base branch, checks and engine. Nothing is merged into your work by itself.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn create_subtask(&self, Parameters(wanted): Parameters<Subtask>) -> Result<CallToolResult, ToolFailure> {
        let Subtask { title, instructions, budget_usd: usd, budget_tokens: tokens, allow_empty, key } = wanted;
        if instructions.len() > SUBTASK_INSTRUCTIONS_LEN_MAX {
            let text = format!("instructions have {SUBTASK_INSTRUCTIONS_LEN_MAX} bytes at most; shorten them");
            return Err(ToolFailure::new("invalid_request", text));
        }
        let subtask = NewSubtask { title: clean_line(&title), instructions, usd, tokens, allow_empty, key };
        match self.call(RunRequest::CreateSubtask { subtask }).await? {
            RunAnswer::Subtask(created) => Ok(structured(&created_text(&created), &*created)),
            other => Err(unexpected(&other)),
        }
    }

    /// Show your subtasks: stage, commit, final message, and what is left of your budget.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn list_subtasks(&self, Parameters(Nothing {}): Parameters<Nothing>) -> Result<CallToolResult, ToolFailure> {
        match self.call(RunRequest::ListSubtasks {}).await? {
            RunAnswer::Subtasks(list) => Ok(structured(&list_text(&list), &*list)),
            other => Err(unexpected(&other)),
        }
    }

    /// Wait until all your subtasks have ended. Your work is saved and the job is parked without a seat: stop after this call. The job goes on with their branches and final messages in its prompt.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn wait_for_subtasks(
        &self,
        Parameters(Nothing {}): Parameters<Nothing>,
    ) -> Result<CallToolResult, ToolFailure> {
        match self.call(RunRequest::AwaitSubtasks {}).await? {
            RunAnswer::Parked { saved } => {
                let saved = saved.map_or_else(String::new, |sha| format!(" Your work is saved as {sha}."));
                Ok(said(&format!(
                    "parked, stop now.{saved} The job goes on when its subtasks have ended; their results are in the \
                     prompt of its next run."
                )))
            }
            RunAnswer::Subtasks(list) => {
                let text = format!("all subtasks have ended; go on\n{}", list_text(&list));
                Ok(structured(&text, &*list))
            }
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

fn structured(text: &str, content: &impl Serialize) -> CallToolResult {
    let mut result = said(text);
    result.structured_content = serde_json::to_value(content).ok();
    result
}

fn created_text(created: &SubtaskResponse) -> String {
    let SubtaskResponse { id, stage, .. } = created;
    let opening = match created.created {
        true => format!("created subtask {id}, {stage}"),
        false => format!("subtask {id} exists, {stage}"),
    };
    let reserved = [
        created.usd.map(domain::dollars),
        created.tokens.map(|tokens| domain::counted(u32::try_from(tokens).unwrap_or(u32::MAX), "token")),
    ];
    let reserved: Vec<String> = reserved.into_iter().flatten().collect();
    let reserved = if reserved.is_empty() { String::new() } else { format!("\nreserved: {}", reserved.join(", ")) };
    format!("{opening}{reserved}\n{}", left_text(&created.left))
}

fn left_text(left: &SubtaskBudget) -> String {
    let usd = left.usd.map_or_else(|| "no limit".to_owned(), domain::dollars);
    let tokens = left.tokens.map_or_else(|| "no limit".to_owned(), |tokens| tokens.to_string());
    format!("left for your job: money {usd}, tokens {tokens}, subtasks {}", left.subtasks)
}

fn list_text(list: &SubtaskList) -> String {
    if list.items.is_empty() {
        return format!("no subtasks\n{}", left_text(&list.left));
    }
    let lines = list.items.iter().map(|subtask| {
        let commit = subtask.commit.as_ref().map_or_else(String::new, |commit| format!(", commit {commit}"));
        let summary = subtask.summary.as_deref().map(clean_line).filter(|summary| !summary.trim().is_empty());
        let summary = summary.map_or_else(String::new, |summary| format!(": {summary}"));
        format!("{} {} ({}{commit}){summary}", subtask.id, clean_line(&subtask.title), subtask.stage)
    });
    lines.chain([left_text(&list.left)]).collect::<Vec<_>>().join("\n")
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

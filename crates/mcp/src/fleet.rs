//! The tools for programs outside the fleet: submit jobs, follow them, answer and cancel them.

mod answers;
mod http_service;
mod log_tail;
mod params;
mod text;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use client::{Client, Endpoint, HttpTransport, Trust};
use domain::{Clock, Dep, JobId, StageName, clean_line};
use http::request::Parts;
use protocol::{
    Action, ActionRequest, AnswerRequest, BudgetList, BudgetView, EventList, FactoryList, JobDetail, JobExplanation,
    JobList, JobView, SubmitRequest, SubmitResponse, TokenDigest,
};
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, Extensions, Implementation, ServerCapabilities, ServerConfig, Tool};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, tool, tool_handler, tool_router};

pub use http_service::{FleetService, fleet_service};

use crate::failure::ToolFailure;
use crate::schema::compact;
use answers::{
    ApiObject, BudgetsAnswer, EventLine, EventsAnswer, ExplainAnswer, FactoriesAnswer, JobAnswer, JobsAnswer,
    LogAnswer, Outcome, Submitted, WaitAnswer, answer,
};
use client::Query;
use params::{
    Answer, BudgetQuery, Cancellation, CheckedManifest, EventQuery, JobQuery, LogQuery, Manifest, Nothing, OneJob,
    WaitQuery,
};
use text::{budget_line, factory_line, job_line, lines};
use wait::{WAIT_DEFAULT, WAIT_MAX, Watch};

/// The page size of lists: enough to choose from, and few tokens.
const PAGE: u16 = 20;

/// The tools that change something.
const WRITES: [&str; 3] = ["submit_job", "answer_question", "cancel_job"];

const INSTRUCTIONS: &str = "Gigafactory runs coding agents as jobs on a fleet of machines. Submit a manifest, then call \
    wait_for_job: it waits for you. A job in `testing` is verified and ready to ship; a job that asks goes on after \
    answer_question.";

/// Which tools are offered. The role of the token decides what a call may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolAccess {
    /// All of them.
    Full,
    /// Those that change nothing.
    ReadOnly,
}

/// The tools of a fleet.
#[derive(Clone)]
pub struct FleetTools {
    api: Api,
    clock: Arc<dyn Clock>,
    wait_max: Duration,
    router: ToolRouter<Self>,
}

/// The way to the coordinator's API.
#[derive(Clone)]
enum Api {
    /// With one token.
    Client(Client),
    /// With the authority of each call's own caller.
    OfCaller(CallerTransport),
}

/// Finds the way to the API that the server gave to a request.
pub(crate) type CallerTransport = Arc<dyn Fn(&Parts) -> Option<Arc<dyn HttpTransport>> + Send + Sync>;

impl FleetTools {
    /// Tools that call the API through one client.
    pub fn new(client: Client, access: ToolAccess, clock: Arc<dyn Clock>) -> Self {
        Self::with(Api::Client(client), access, clock)
    }

    /// Tools that call the API with the authority of each request's caller.
    pub(crate) fn of_caller(transport: CallerTransport, clock: Arc<dyn Clock>) -> Self {
        Self::with(Api::OfCaller(transport), ToolAccess::Full, clock)
    }

    fn with(api: Api, access: ToolAccess, clock: Arc<dyn Clock>) -> Self {
        let mut router = Self::tool_router();
        if access == ToolAccess::ReadOnly {
            WRITES.iter().for_each(|name| router.remove_route(name));
        }
        for route in router.map.values_mut() {
            route.attr = compact(route.attr.clone());
        }
        Self { api, clock, wait_max: WAIT_MAX, router }
    }

    /// The same, with another limit of `wait_for_job`: for clients that wait longer for a tool.
    #[must_use]
    pub fn waiting_at_most(self, wait_max: Option<Duration>) -> Self {
        Self { wait_max: wait_max.unwrap_or(self.wait_max), ..self }
    }

    /// The tools that it offers.
    pub fn tools(&self) -> Vec<Tool> {
        self.router.list_all()
    }

    fn client(&self, call: &Extensions) -> Result<Client, ToolFailure> {
        let find = match &self.api {
            Api::Client(client) => return Ok(client.clone()),
            Api::OfCaller(find) => find,
        };
        let parts = call.get::<Parts>();
        let transport = parts.and_then(|parts| find(parts));
        let transport = transport.ok_or_else(|| ToolFailure::new("unauthenticated", "the call has no caller"))?;
        let product = parts.and_then(|parts| parts.headers.get("x-product-id")?.to_str().ok()?.parse().ok());
        // Neither the address nor the token leaves the process.
        let endpoint =
            Endpoint { base: "http://localhost".to_owned(), token: String::new(), product, trust: Trust::Public };
        Ok(Client::over(transport, endpoint)?)
    }
}

#[tool_router]
impl FleetTools {
    /// Submit a job: a prompt for a coding agent. The manifest is Markdown; YAML front matter may name `title`, `repo`, `base`, `engines`, `verify` (commands), `priority`, `budget`, `deps`. The same manifest gives the same job unless `key` differs.
    #[tool(
        output_schema = schema_for_output::<Submitted>(),
        annotations(read_only_hint = false, destructive_hint = false, idempotent_hint = true, open_world_hint = false)
    )]
    async fn submit_job(
        &self,
        Parameters(asked): Parameters<Manifest>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolFailure> {
        let client = self.client(&context.extensions)?;
        let parent = asked.parent.map(Dep::try_from).transpose();
        let parent = parent.map_err(|error| ToolFailure::new("invalid", format!("parent: {error}")))?;
        let key = asked.key.unwrap_or_else(|| manifest_key(&asked.manifest));
        let request = SubmitRequest {
            body_md: asked.manifest,
            idempotency_key: Some(key),
            product_id: asked.product,
            parent,
            strict: true,
        };
        let submitted: SubmitResponse = client.post("/jobs", &request).await?;
        let opening = match submitted.created {
            true => "submitted".to_owned(),
            false => format!("already submitted with this key; current stage: {}", submitted.job.stage),
        };
        submitted_answer(&opening, &submitted)
    }

    /// Check a manifest and show where it would run, without submitting it.
    #[tool(
        output_schema = schema_for_output::<Submitted>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn dry_run_job(
        &self,
        Parameters(asked): Parameters<CheckedManifest>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolFailure> {
        let client = self.client(&context.extensions)?;
        let request = SubmitRequest {
            body_md: asked.manifest,
            idempotency_key: None,
            product_id: asked.product,
            strict: true,
            ..SubmitRequest::default()
        };
        let checked: SubmitResponse = client.post("/jobs?dryRun=true", &request).await?;
        submitted_answer("valid, not submitted", &checked)
    }

    /// List jobs, newest first.
    #[tool(
        output_schema = schema_for_output::<JobsAnswer>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn list_jobs(
        &self,
        Parameters(asked): Parameters<JobQuery>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolFailure> {
        let client = self.client(&context.extensions)?;
        let stages: Vec<&str> = asked.stages.iter().map(|stage| stage.as_str()).collect();
        let path = Query::new("/jobs")
            .with("limit", asked.limit.unwrap_or(PAGE).clamp(1, 100).to_string())
            .maybe("stage", Some(stages.join(",")).filter(|stages| !stages.is_empty()))
            .maybe("product", asked.product.as_ref().map(|product| product.as_str()))
            .maybe("repo", asked.repo.as_ref().map(ToString::to_string))
            .maybe("tag", Some(asked.tags.join(",")).filter(|tags| !tags.is_empty()))
            .maybe("text", asked.text)
            .maybe("cursor", asked.cursor);
        let page: JobList = client.get(path.as_str()).await?;
        let shown = lines(page.items.iter().map(job_line), "no jobs", page.next.as_deref());
        let jobs = page.items.iter().map(ApiObject::of).collect::<Result<_, _>>()?;
        answer(shown, &JobsAnswer { jobs, next: page.next })
    }

    /// Show one job with its manifest, run, cost and progress.
    #[tool(
        output_schema = schema_for_output::<JobAnswer>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn get_job(
        &self,
        Parameters(asked): Parameters<OneJob>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolFailure> {
        let (client, id) = (self.client(&context.extensions)?, job_id(&asked.id)?);
        let detail: JobDetail = client.get(&format!("/jobs/{id}")).await?;
        let doing = detail.progress.as_ref().and_then(|progress| progress.doing.as_deref());
        let doing = doing.map_or_else(String::new, |doing| format!("\nnow: {}", clean_line(doing)));
        answer(job_line(&detail.job) + &doing, &JobAnswer::of_detail(&detail)?)
    }

    /// Explain why a job is in its stage, and which factories can run it.
    #[tool(
        output_schema = schema_for_output::<ExplainAnswer>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn explain_job(
        &self,
        Parameters(asked): Parameters<OneJob>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolFailure> {
        let (client, id) = (self.client(&context.extensions)?, job_id(&asked.id)?);
        let explanation: JobExplanation = client.get(&format!("/jobs/{id}/explain")).await?;
        let fits = explanation.now.factories.iter().map(|fit| {
            let reasons: Vec<String> = fit.unfit.iter().map(ToString::to_string).collect();
            match fit.eligible {
                true => format!("{}: eligible", fit.factory),
                false => format!("{}: {}", fit.factory, reasons.join("; ")),
            }
        });
        let shown = [explanation.summary.clone()].into_iter().chain(fits).map(|line| clean_line(&line));
        answer(lines(shown, "", None), &ExplainAnswer::of(&explanation)?)
    }

    /// List a job's events, oldest first.
    #[tool(
        output_schema = schema_for_output::<EventsAnswer>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn get_job_events(
        &self,
        Parameters(asked): Parameters<EventQuery>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolFailure> {
        let (client, id) = (self.client(&context.extensions)?, job_id(&asked.id)?);
        let path = Query::new(format!("/jobs/{id}/events"))
            .with("limit", asked.limit.unwrap_or(PAGE).clamp(1, 100).to_string())
            .maybe("after", asked.after);
        let page: EventList = client.get(path.as_str()).await?;
        let shown =
            page.items.iter().map(|event| format!("{}  {}  {}", event.at, event.stage, clean_line(&event.sentence())));
        let shown = lines(shown, "no events", page.next.as_deref());
        answer(shown, &EventsAnswer { events: page.items.iter().map(EventLine::from).collect(), next: page.next })
    }

    /// Show the end of the output of a job's agent.
    #[tool(
        output_schema = schema_for_output::<LogAnswer>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn get_job_log(
        &self,
        Parameters(asked): Parameters<LogQuery>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolFailure> {
        let (client, id) = (self.client(&context.extensions)?, job_id(&asked.id)?);
        let tail = log_tail::read(&client, id, asked.run, asked.tail_bytes).await?;
        let shown = if tail.text.is_empty() { "no output yet".to_owned() } else { tail.text.clone() };
        answer(shown, &tail)
    }

    /// Wait until a job finishes or needs attention. It waits for you: do not poll with other tools. After a time-out call it again.
    #[tool(
        output_schema = schema_for_output::<WaitAnswer>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn wait_for_job(
        &self,
        Parameters(asked): Parameters<WaitQuery>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolFailure> {
        let (client, id) = (self.client(&context.extensions)?, job_id(&asked.id)?);
        let timeout = asked.timeout_s.map_or(WAIT_DEFAULT, Duration::from_secs).min(self.wait_max);
        let mut watch = Watch::open(client, Arc::clone(&self.clock), id).await?;
        let outcome = watch.until(asked.until, timeout, &context.ct).await?;
        let shown = match outcome {
            Outcome::Reached | Outcome::NeedsAttention => job_line(&watch.job),
            Outcome::TimedOut => {
                let waited = timeout.as_secs();
                format!("not there after {waited} s, call wait_for_job again: {}", job_line(&watch.job))
            }
        };
        answer(shown, &WaitAnswer { outcome, job: ApiObject::of(&watch.job)?, cursor: watch.cursor() })
    }

    /// Answer the question that a job is blocked on. The agent goes on with its saved work.
    #[tool(
        output_schema = schema_for_output::<JobAnswer>(),
        annotations(read_only_hint = false, destructive_hint = false, idempotent_hint = false, open_world_hint = false)
    )]
    async fn answer_question(
        &self,
        Parameters(asked): Parameters<Answer>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolFailure> {
        let (client, id) = (self.client(&context.extensions)?, job_id(&asked.id)?);
        let job: JobView = client.post(&format!("/jobs/{id}/answer"), &AnswerRequest { text: asked.answer }).await?;
        answer(format!("answered: {}", job_line(&job)), &JobAnswer::of(&job)?)
    }

    /// Cancel a job and stop its agent.
    #[tool(
        output_schema = schema_for_output::<JobAnswer>(),
        annotations(read_only_hint = false, destructive_hint = true, idempotent_hint = true, open_world_hint = false)
    )]
    async fn cancel_job(
        &self,
        Parameters(asked): Parameters<Cancellation>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolFailure> {
        let (client, id) = (self.client(&context.extensions)?, job_id(&asked.id)?);
        let request = ActionRequest { message: asked.reason, ..ActionRequest::default() };
        let job = match act(&client, id, Action::Cancel, &request).await {
            Ok(job) => job,
            Err(error) => match is_cancelled(&client, id).await {
                Some(job) => job,
                None => return Err(error),
            },
        };
        answer(format!("cancelled: {}", job_line(&job)), &JobAnswer::of(&job)?)
    }

    /// List the machines that run jobs: presence, seats, repositories, capabilities.
    #[tool(
        output_schema = schema_for_output::<FactoriesAnswer>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn list_factories(
        &self,
        Parameters(Nothing {}): Parameters<Nothing>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolFailure> {
        let list: FactoryList = self.client(&context.extensions)?.get("/factories").await?;
        let shown = lines(list.items.iter().map(factory_line), "no factories", None);
        answer(shown, &FactoriesAnswer::of(&list.items)?)
    }

    /// Show what products may spend, have spent and have left.
    #[tool(
        output_schema = schema_for_output::<BudgetsAnswer>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn get_budget(
        &self,
        Parameters(query): Parameters<BudgetQuery>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolFailure> {
        let client = self.client(&context.extensions)?;
        let budgets = match query.product {
            Some(product) => vec![client.get::<BudgetView>(&format!("/budgets/{product}")).await?],
            None => client.get::<BudgetList>("/budgets").await?.items,
        };
        let shown = lines(budgets.iter().map(budget_line), "no products", None);
        answer(shown, &BudgetsAnswer::of(&budgets)?)
    }
}

#[tool_handler(router = self.router)]
impl ServerHandler for FleetTools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("gigafactory", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }
}

async fn act(client: &Client, id: JobId, action: Action, request: &ActionRequest) -> Result<JobView, ToolFailure> {
    Ok(client.post(&format!("/jobs/{id}/actions/{}", action.name()), request).await?)
}

/// The job, if it was cancelled before: a repeated call must not fail.
async fn is_cancelled(client: &Client, id: JobId) -> Option<JobView> {
    let detail: JobDetail = client.get(&format!("/jobs/{id}")).await.ok()?;
    let is_cancelled =
        detail.job.stage == StageName::Failed && detail.job.reason == Some(domain::FailureReason::Cancelled);
    is_cancelled.then_some(detail.job)
}

fn submitted_answer(opening: &str, submitted: &SubmitResponse) -> Result<CallToolResult, ToolFailure> {
    let forecast = clean_line(&submitted.forecast.text);
    let warnings: Vec<String> = submitted.warnings.iter().map(|warning| clean_line(&warning.message)).collect();
    let warned: String = warnings.iter().map(|warning| format!("\nwarning: {warning}")).collect();
    let content = Submitted {
        job: ApiObject::of(&submitted.job)?,
        created: submitted.created,
        forecast: forecast.clone(),
        warnings,
    };
    answer(format!("{opening}: {}\n{forecast}{warned}", job_line(&submitted.job)), &content)
}

/// A call that the client repeats after a lost answer makes no second job.
fn manifest_key(manifest: &str) -> String {
    format!("mcp-{}", TokenDigest::of(manifest).to_text())
}

fn job_id(text: &str) -> Result<JobId, ToolFailure> {
    text.trim().parse().map_err(|_| {
        let text = domain::escape_for_terminal(text);
        ToolFailure::new("invalid_id", format!("`{text}` is not a job id; list_jobs shows them in full"))
    })
}

#[cfg(test)]
mod tests;

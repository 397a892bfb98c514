//! The answers of the fleet's tools: text for the model, and the API's own objects in the structured part.

use domain::JobEvent;
use protocol::{BudgetView, FactoryView, JobDetail, JobExplanation, JobView};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::failure::ToolFailure;

/// An answer: its text, and its structured content.
pub(super) fn answer(text: String, content: &impl Serialize) -> Result<CallToolResult, ToolFailure> {
    let content = json(content)?;
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(content);
    Ok(result)
}

fn json(value: &impl Serialize) -> Result<Value, ToolFailure> {
    serde_json::to_value(value).map_err(|error| ToolFailure::new("internal", error.to_string()))
}

/// An object of the API. Its schema is in the API's own description.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct ApiObject(Value);

impl ApiObject {
    pub(super) fn of(value: &impl Serialize) -> Result<Self, ToolFailure> {
        json(value).map(Self)
    }
}

impl JsonSchema for ApiObject {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Object".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), "object".into());
        schema.into()
    }
}

/// The answer to a submit.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Submitted {
    pub(super) job: ApiObject,
    /// False: it existed already
    pub(super) created: bool,
    /// Where it will run, or what is missing
    pub(super) forecast: String,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(super) warnings: Vec<String>,
}

/// One job.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct JobAnswer {
    pub(super) job: ApiObject,
}

impl JobAnswer {
    pub(super) fn of(job: &JobView) -> Result<Self, ToolFailure> {
        Ok(Self { job: ApiObject::of(job)? })
    }

    pub(super) fn of_detail(job: &JobDetail) -> Result<Self, ToolFailure> {
        Ok(Self { job: ApiObject::of(job)? })
    }
}

/// A page of jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct JobsAnswer {
    pub(super) jobs: Vec<ApiObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// Why a job is in its stage.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ExplainAnswer {
    pub(super) summary: String,
    pub(super) explanation: ApiObject,
}

impl ExplainAnswer {
    pub(super) fn of(explanation: &JobExplanation) -> Result<Self, ToolFailure> {
        Ok(Self { summary: explanation.summary.clone(), explanation: ApiObject::of(explanation)? })
    }
}

/// A page of events.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct EventsAnswer {
    pub(super) events: Vec<EventLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// One event.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct EventLine {
    at: String,
    stage: String,
    text: String,
}

impl From<&JobEvent> for EventLine {
    fn from(event: &JobEvent) -> Self {
        Self { at: event.at.to_string(), stage: event.stage.as_str().to_owned(), text: event.sentence() }
    }
}

/// The end of a log.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LogAnswer {
    pub(super) text: String,
    /// Earlier output was left out
    pub(super) truncated: bool,
}

/// The end of a wait.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WaitAnswer {
    pub(super) outcome: Outcome,
    pub(super) job: ApiObject,
    /// `after` of get_job_events: what happens from here on
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cursor: Option<String>,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(super) enum Outcome {
    Reached,
    NeedsAttention,
    TimedOut,
}

/// The budgets.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct BudgetsAnswer {
    pub(super) budgets: Vec<ApiObject>,
}

impl BudgetsAnswer {
    pub(super) fn of(budgets: &[BudgetView]) -> Result<Self, ToolFailure> {
        Ok(Self { budgets: budgets.iter().map(ApiObject::of).collect::<Result<_, _>>()? })
    }
}

/// The factories.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FactoriesAnswer {
    pub(super) factories: Vec<ApiObject>,
}

impl FactoriesAnswer {
    pub(super) fn of(factories: &[FactoryView]) -> Result<Self, ToolFailure> {
        Ok(Self { factories: factories.iter().map(ApiObject::of).collect::<Result<_, _>>()? })
    }
}

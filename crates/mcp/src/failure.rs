//! Failures that the model reads.

use client::ClientError;
use domain::{Finding, clean_line, clean_lines};
use protocol::Problem;
use rmcp::ErrorData;
use rmcp::handler::server::tool::IntoCallToolResult;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, MetaObject};
use serde_json::Value;

/// The key of the stable code in the metadata of a failed call.
const CODE: &str = "gigafactory/code";

/// A failed call: what happened and what to do, with the stable code of the API.
///
/// It is a result of the tool and not an error of the protocol, which clients do not show to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolFailure {
    code: String,
    text: String,
}

impl ToolFailure {
    pub(crate) fn new(code: &str, text: impl Into<String>) -> Self {
        Self { code: code.to_owned(), text: text.into() }
    }
}

impl From<Problem> for ToolFailure {
    fn from(problem: Problem) -> Self {
        // A manifest's findings name the line and the key: without them the model cannot fix it.
        let findings: Vec<Finding> = problem
            .more
            .get("findings")
            .cloned()
            .and_then(|found| serde_json::from_value(found).ok())
            .unwrap_or_default();
        // The detail has the first one.
        let others = findings.iter().skip(1);
        let others = others.map(|finding| format!("\nline {}: {}", finding.line, finding_text(finding)));
        let text = clean_lines(&problem.detail) + remedy(&problem.code) + &others.collect::<String>();
        Self { code: problem.code, text }
    }
}

impl From<ClientError> for ToolFailure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(problem) => Self::from(*problem),
            ClientError::NoAnswer { .. } => Self::new(
                "unreachable",
                format!(
                    "{}; start the coordinator with `giga up`, or set GIGA_API to its address. If this call was a change, its \
                     outcome is unknown: read the job before you repeat it",
                    clean_line(&error.to_string())
                ),
            ),
            ClientError::Tls { remedy, .. } => {
                Self::new("unreachable", format!("{}; {remedy}", clean_line(&error.to_string())))
            }
            ClientError::Unproven { .. } | ClientError::Garbled { .. } | ClientError::Unusable(_) => {
                Self::new("unreachable", clean_line(&error.to_string()))
            }
        }
    }
}

impl IntoCallToolResult for ToolFailure {
    fn into_call_tool_result(self) -> Result<CallToolResponse, ErrorData> {
        let text = format!("error `{}`: {}", self.code, self.text);
        let mut meta = MetaObject::new();
        meta.0.insert(CODE.to_owned(), Value::String(self.code));
        // Without structured content: clients would validate it against the schema of the answer.
        Ok(CallToolResult::error(vec![ContentBlock::text(text)]).with_meta(Some(meta)).into())
    }
}

/// What to do, where the API leaves that to the caller.
fn remedy(code: &str) -> &'static str {
    match code {
        "no_such_job" => "; list_jobs shows the jobs that this token may see",
        "no_question" => "; wait_for_job tells when it asks",
        "forbidden" => "; ask an operator for a token whose role may do this",
        _ => "",
    }
}

fn finding_text(finding: &Finding) -> String {
    let key = finding.key.as_deref().map_or_else(String::new, |key| format!("{key}: "));
    format!("{}{}", clean_line(&key), clean_line(&finding.message))
}

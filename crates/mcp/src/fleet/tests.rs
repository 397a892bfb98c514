use std::collections::VecDeque;

use async_trait::async_trait;
use bytes::Bytes;
use client::{ResponseBody, TransportError};
use clock::SystemClock;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;

/// A coordinator that gives scripted answers and records what it was asked.
#[derive(Default)]
struct ScriptedApi {
    answers: Mutex<VecDeque<(u16, String)>>,
    asked: Mutex<Vec<(Method, String, Value)>>,
}

#[async_trait]
impl HttpTransport for ScriptedApi {
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<ResponseBody>, TransportError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        self.asked.lock().push((parts.method, parts.uri.to_string(), body));
        let (status, text) = self.answers.lock().pop_front().unwrap();
        let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
        Ok(Response::builder().status(status).body(body).unwrap())
    }
}

const ID: &str = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a";

fn job(stage: &str) -> Value {
    json!({
        "id": ID, "productId": "default", "title": "A \u{1b}[31mred\u{1b}[0m job", "stage": stage, "priority": "normal",
        "kind": "task", "rev": 1, "leaseEpoch": 0, "dispatchSeq": 0, "attempts": 0, "lostLeases": 0, "runs": 0, "seq": 3,
        "createdBy": "admin", "createdAt": "2026-11-18T12:00:00.000Z", "updatedAt": "2026-11-18T12:00:00.000Z",
    })
}

fn detail(job: Value) -> Value {
    let mut detail = job;
    detail["bodyMd"] = "Please.".into();
    detail["manifestSnapshot"] = serde_json::to_value(domain::Spec::default()).unwrap();
    detail
}

fn tools(answers: impl IntoIterator<Item = (u16, Value)>) -> (Arc<ScriptedApi>, FleetTools) {
    let answers = answers.into_iter().map(|(status, answer)| (status, answer.to_string())).collect();
    let api = Arc::new(ScriptedApi { answers: Mutex::new(answers), ..ScriptedApi::default() });
    let endpoint =
        Endpoint { base: "http://giga".to_owned(), token: "t".to_owned(), product: None, trust: Trust::Public };
    let client = Client::over(api.clone(), endpoint).unwrap();
    (api, FleetTools::new(client, ToolAccess::Full, Arc::new(SystemClock::new())))
}

fn list() -> Vec<Tool> {
    tools([]).1.tools()
}

fn text(result: &CallToolResult) -> String {
    result.content.first().and_then(|content| content.as_text()).unwrap().text.clone()
}

fn failure(failure: ToolFailure) -> String {
    use rmcp::handler::server::tool::IntoCallToolResult;
    match failure.into_call_tool_result().unwrap() {
        rmcp::model::CallToolResponse::Complete(result) => {
            assert_eq!((result.is_error, &result.structured_content), (Some(true), &None));
            text(&result)
        }
        other => panic!("not complete: {other:?}"),
    }
}

// [U4]
#[test]
fn the_list_of_tools_costs_less_than_3000_tokens() {
    let list = serde_json::to_string(&list()).unwrap();

    // Tokenizers make one token of three to four bytes of JSON.
    let tokens = list.len() / 3;
    assert!(tokens < 3_000, "{tokens} tokens, {} bytes", list.len());
}

// [U4]
#[test]
fn every_tool_has_hints_a_closed_input_and_an_output_schema() {
    let list = list();
    let names: Vec<&str> = list.iter().map(|tool| tool.name.as_ref()).collect();

    let expected = [
        "answer_question",
        "cancel_job",
        "dry_run_job",
        "explain_job",
        "get_budget",
        "get_job",
        "get_job_events",
        "get_job_log",
        "list_factories",
        "list_jobs",
        "submit_job",
        "wait_for_job",
    ];
    assert_eq!(names, expected);
    for tool in &list {
        let hints = tool.annotations.as_ref().unwrap();
        let hints = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint);
        let wanted = match tool.name.as_ref() {
            "submit_job" => (Some(false), Some(false), Some(true)),
            "answer_question" => (Some(false), Some(false), Some(false)),
            "cancel_job" => (Some(false), Some(true), Some(true)),
            _ => (Some(true), None, None),
        };
        assert_eq!(hints, wanted, "{}", tool.name);
        assert_eq!(tool.annotations.as_ref().unwrap().open_world_hint, Some(false));
        assert_eq!(tool.input_schema["additionalProperties"], json!(false), "{}", tool.name);
        assert_eq!(tool.output_schema.as_ref().unwrap()["type"], "object", "{}", tool.name);
    }
}

#[test]
fn a_read_only_server_has_no_tool_that_writes() {
    let (_, tools) = tools([]);
    let Api::Client(client) = tools.api else { panic!("not a client") };

    let tools = FleetTools::new(client, ToolAccess::ReadOnly, Arc::new(SystemClock::new()));

    assert!(WRITES.iter().all(|name| !tools.router.has_route(name)));
    assert_eq!(tools.tools().len(), 9);
}

#[tokio::test]
async fn a_failure_has_the_code_of_the_problem_and_its_remedy() {
    let problem = json!({
        "type": "urn:x", "title": "bad manifest", "status": 400, "code": "bad_manifest",
        "detail": "line 2, budget.usd: expected a number; and 1 more",
        "more": { "findings": [
            { "line": 2, "key": "budget.usd", "message": "expected a number", "severity": "error" },
            { "line": 3, "key": "priorty", "message": "did you mean `priority`?", "severity": "error" },
        ] },
    });
    let (_, tools) = tools([(400, problem)]);
    let client = tools.client(&Extensions::new()).unwrap();

    let refused = client.post::<_, SubmitResponse>("/jobs", &SubmitRequest::default()).await.unwrap_err();

    let shown = failure(refused.into());
    assert!(shown.starts_with("error `bad_manifest`: line 2, budget.usd: expected a number; and 1 more"), "{shown}");
    assert!(shown.contains("\nline 3: priorty: did you mean `priority`?"), "{shown}");
}

#[test]
fn an_unknown_parameter_is_rejected_with_the_known_ones() {
    let error = serde_json::from_value::<JobQuery>(json!({ "stage": "queued" })).unwrap_err();

    assert!(error.to_string().contains("unknown field `stage`, expected one of `stages`"), "{error}");
}

#[test]
fn the_same_manifest_has_the_same_key() {
    assert_eq!(manifest_key("a"), manifest_key("a"));
    assert_ne!(manifest_key("a"), manifest_key("b"));
}

#[test]
fn a_line_about_a_job_has_no_escape_sequences() {
    let job: JobView = serde_json::from_value(job("queued")).unwrap();

    assert_eq!(job_line(&job), format!("{ID}  queued  A red job"));
}

#[tokio::test]
async fn a_wait_ends_with_a_time_out_that_is_not_an_error() {
    let hello = "event: hello\nid: 7\ndata: {}\n\n".to_owned();
    let (api, tools) = tools([]);
    // The stream ends at once: the feed reconnects later than the wait ends.
    api.answers.lock().extend([(200, hello), (200, detail(job("building")).to_string())]);
    let client = tools.client(&Extensions::new()).unwrap();
    let cancel = tokio_util::sync::CancellationToken::new();

    let mut watch = Watch::open(client, Arc::new(SystemClock::new()), ID.parse().unwrap()).await.unwrap();
    let outcome = watch.until(params::Until::Finished, Duration::from_millis(20), &cancel).await.unwrap();

    assert_eq!(outcome, Outcome::TimedOut);
    assert_eq!((watch.job.stage, watch.cursor().as_deref()), (StageName::Building, Some("7")));
}

#[tokio::test]
async fn a_wait_ends_when_a_person_is_needed() {
    let mut asking = job("blocked");
    asking["question"] = "Which gate?".into();
    let (api, tools) = tools([]);
    let hello = "event: hello\nid: 7\ndata: {}\n\n".to_owned();
    api.answers.lock().extend([(200, hello), (200, detail(asking).to_string())]);
    let client = tools.client(&Extensions::new()).unwrap();
    let cancel = tokio_util::sync::CancellationToken::new();

    let mut watch = Watch::open(client, Arc::new(SystemClock::new()), ID.parse().unwrap()).await.unwrap();
    let outcome = watch.until(params::Until::Shipped, WAIT_MAX, &cancel).await.unwrap();

    assert_eq!(outcome, Outcome::NeedsAttention);
}

#[test]
fn a_call_without_a_caller_reaches_no_api() {
    let tools = FleetTools::of_caller(Arc::new(|_: &Parts| None), Arc::new(SystemClock::new()));

    let refused = tools.client(&Extensions::new()).err().unwrap();

    assert_eq!(failure(refused), "error `unauthenticated`: the call has no caller");
}

#[tokio::test]
async fn the_end_of_a_log_is_read_without_escape_sequences() {
    let (api, tools) = tools([]);
    api.answers.lock().push_back((200, "a \u{1b}]52;c;eA==\u{7}b\n".to_owned()));
    let client = tools.client(&Extensions::new()).unwrap();

    let tail = log_tail::read(&client, ID.parse().unwrap(), None, Some(1_000_000)).await.unwrap();

    assert_eq!((tail.text.as_str(), tail.truncated), ("a b\n", false));
    assert_eq!(api.asked.lock()[0].1, format!("http://giga/api/fleet/jobs/{ID}/logs?tail=64000"));
}

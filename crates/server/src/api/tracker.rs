//! Trackers: items become jobs, and the status of the jobs is shown at the items [T6].

use axum::extract::{Request, State};
use coordinator::{Error, IssueEvent, TrackerDelivery, TrackerEvent};
use domain::{Timestamp, TrackerName};
use http::HeaderMap;
use protocol::{EchoRequest, IngestRequest, IngestResponse, TrackerItemView, TrackerList, TrackerWebhookResponse};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::auth::{Caller, RequestOrigin};
use crate::extract::{JsonBody, MANIFEST_LEN_MAX, Name};
use crate::json_response::Json;
use crate::problem::Problem;
use crate::webhook_secret::{Signature, WebhookSecret};

/// How far the clock of a sender may differ, and how long a recorded webhook could be replayed.
const TIMESTAMP_SECONDS_MAX: u64 = 300;

/// The trackers, and the newest items.
#[utoipa::path(
    get, path = "/tracker", tag = "tracker",
    responses((status = 200, description = "The trackers in order of name, the newest items first", body = TrackerList)),
)]
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Result<Json<TrackerList>, Problem> {
    Ok(Json(app.coordinator.trackers(&who)?))
}

/// Makes a job of an item, once: the same tracker and key are one job, however often the item is delivered.
#[utoipa::path(
    post, path = "/tracker/ingest", tag = "tracker", request_body = IngestRequest,
    responses((status = 200, description = "The item's job", body = IngestResponse)),
)]
pub(crate) async fn ingest(
    State(app): State<App>,
    Caller(who): Caller,
    JsonBody(request): JsonBody<IngestRequest, MANIFEST_LEN_MAX>,
) -> Result<Json<IngestResponse>, Problem> {
    Ok(Json(app.coordinator.ingest(&who, request).await?))
}

/// Sends the status of a job to its item again.
#[utoipa::path(
    post, path = "/tracker/echo", tag = "tracker", request_body = EchoRequest,
    responses((status = 200, description = "The item", body = TrackerItemView)),
)]
pub(crate) async fn echo(
    State(app): State<App>,
    Caller(who): Caller,
    JsonBody(request): JsonBody<EchoRequest>,
) -> Result<Json<TrackerItemView>, Problem> {
    Ok(Json(app.coordinator.echo_item(&who, &request).await?))
}

/// Receives a webhook of a tracker, signed with its secret.
///
/// `github` takes GitHub's own webhooks about issues. Every other tracker sends an `IngestRequest` without `source`, and
/// signs `<X-Giga-Timestamp>.<body>`.
#[utoipa::path(
    post, path = "/tracker/webhook/{name}", tag = "tracker", request_body(content = serde_json::Value),
    params(
        ("name" = TrackerName, Path, description = "The tracker"),
        ("X-Hub-Signature-256" = Option<String>, Header, description = "GitHub: `sha256=` and the HMAC of the body", pattern = "^sha256=[0-9a-fA-F]{64}$", max_length = 71),
        ("X-GitHub-Delivery" = Option<String>, Header, description = "GitHub: the id of the delivery", max_length = 200),
        ("X-Giga-Signature" = Option<String>, Header, description = "Others: `sha256=` and the HMAC of timestamp, `.` and body", pattern = "^sha256=[0-9a-fA-F]{64}$", max_length = 71),
        ("X-Giga-Timestamp" = Option<String>, Header, description = "Others: seconds since 1970, at most five minutes off", pattern = "^[0-9]+$", max_length = 12),
        ("X-Giga-Delivery" = Option<String>, Header, description = "Others: the id of the delivery", max_length = 200),
    ),
    responses((status = 200, description = "What became of it", body = TrackerWebhookResponse)),
)]
pub(crate) async fn webhook(
    State(app): State<App>,
    Name(name): Name<TrackerName>,
    origin: RequestOrigin,
    request: Request,
) -> Result<Json<TrackerWebhookResponse>, Problem> {
    let unknown = || Problem::no_such_route(&format!("/api/fleet/tracker/webhook/{name}"));
    let secret = app.tracker_secret(&name).ok_or_else(unknown)?;
    origin.check(&app)?;
    let signature = match is_github(&name) {
        true => github_signature(request.headers(), secret),
        false => timed_signature(request.headers(), secret, app.clock.now()),
    };
    // Without a signature to compare, the body is not read.
    let delivery = text(request.headers(), if is_github(&name) { "x-github-delivery" } else { "x-giga-delivery" });
    let delivery = delivery.map(str::to_owned);
    let signature = origin.checked_token(&app, signature.ok_or(Error::Unauthenticated))?;
    let body = app.webhook_bodies.read(&app, origin.network(), request, signature).await?;
    let body = origin.checked_token(&app, body.ok_or(Error::Unauthenticated))?;
    let event = match is_github(&name) {
        true => issue_event(&body.bytes)?,
        false => item_event(&name, &body.bytes)?,
    };
    // The id of a delivery is not signed: a replay could have another one, and has the same body.
    let ids = [Some(hex(&Sha256::digest(&body.bytes))), delivery].into_iter().flatten().collect();
    let TrackerDelivery { outcome, job, why } = app.coordinator.receive_tracker_event(&name, ids, event).await?;
    Ok(Json(TrackerWebhookResponse { outcome, job_id: job, why: why.map(str::to_owned) }))
}

fn is_github(name: &TrackerName) -> bool {
    name.as_str() == "github"
}

fn github_signature(headers: &HeaderMap, secret: &WebhookSecret) -> Option<Signature> {
    secret.signature(text(headers, "x-hub-signature-256")?)
}

/// `None` without a signature, or with a timestamp that is too old or in the future.
fn timed_signature(headers: &HeaderMap, secret: &WebhookSecret, now: Timestamp) -> Option<Signature> {
    let mut signature = secret.signature(text(headers, "x-giga-signature")?)?;
    let timestamp = text(headers, "x-giga-timestamp")?;
    let seconds: i64 = timestamp.parse().ok()?;
    let is_current = (now.as_millis() / 1_000).abs_diff(seconds) <= TIMESTAMP_SECONDS_MAX;
    signature.update(timestamp.as_bytes());
    signature.update(b".");
    is_current.then_some(signature)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn item_event(name: &TrackerName, body: &[u8]) -> Result<TrackerEvent, Problem> {
    let mut value: serde_json::Value = serde_json::from_slice(body).map_err(|error| Problem::json(&error))?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("source".to_owned(), name.as_str().into());
    }
    let request: IngestRequest = serde_json::from_value(value).map_err(|error| Problem::json(&error))?;
    Ok(TrackerEvent::Item(Box::new(request)))
}

fn issue_event(body: &[u8]) -> Result<TrackerEvent, Problem> {
    let message: IssueMessage = serde_json::from_slice(body).map_err(|error| Problem::json(&error))?;
    let Some(issue) = message.issue else { return Ok(TrackerEvent::Other) };
    let event = IssueEvent {
        action: message.action,
        label: message.label.map(|label| label.name),
        repository: message.repository.map_or_else(String::new, |repository| repository.full_name),
        number: issue.number,
        title: issue.title,
        body: issue.body.unwrap_or_default(),
        labels: issue.labels.into_iter().map(|label| label.name).collect(),
        url: issue.html_url,
        author: issue.user.map_or_else(String::new, |user| user.login),
        association: issue.author_association,
        sender: message.sender.map_or_else(String::new, |user| user.login),
        is_pull_request: issue.pull_request.is_some(),
    };
    Ok(TrackerEvent::Issue(Box::new(event)))
}

/// GitHub's webhook about an issue.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct IssueMessage {
    action: String,
    label: Option<Label>,
    issue: Option<Issue>,
    repository: Option<Repository>,
    sender: Option<User>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Issue {
    number: u64,
    title: String,
    body: Option<String>,
    labels: Vec<Label>,
    html_url: String,
    user: Option<User>,
    author_association: String,
    pull_request: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Label {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Repository {
    full_name: String,
}

#[derive(Debug, Deserialize)]
struct User {
    login: String,
}

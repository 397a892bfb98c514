//! A fake of GitHub's API for issues, over HTTP on loopback.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The token that the fake accepts.
pub(crate) const TOKEN: &str = "ghp_canary0123456789";

/// A comment, and whether it is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Comment {
    pub(crate) id: u64,
    pub(crate) body: String,
    pub(crate) is_ours: bool,
}

/// The one issue, `acme/notes#12`.
#[derive(Debug, Default)]
pub(crate) struct Issue {
    pub(crate) comments: Vec<Comment>,
    pub(crate) is_closed: bool,
    pub(crate) requests: Vec<String>,
    /// Answers instead of the real one, by status; the request is done or not.
    pub(crate) faults: Vec<Fault>,
}

/// A fault of the next request with this method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing is done.
    Instead(Method, u16),
    /// It is done, and the answer is lost.
    LostAnswer(Method),
}

/// A GitHub with one issue.
pub(crate) struct FakeIssues {
    address: SocketAddr,
    issue: Arc<Mutex<Issue>>,
    _serving: JoinSet<()>,
}

impl FakeIssues {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let issue: Arc<Mutex<Issue>> = Arc::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&issue));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, issue, _serving: serving }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn issue<T>(&self, with: impl FnOnce(&mut Issue) -> T) -> T {
        with(&mut self.issue.lock())
    }

    /// The texts of our comments.
    pub(crate) fn ours(&self) -> Vec<String> {
        self.issue(|issue| issue.comments.iter().filter(|said| said.is_ours).map(|said| said.body.clone()).collect())
    }
}

async fn answer(State(issue): State<Arc<Mutex<Issue>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let sent: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let token = parts.headers.get("authorization").and_then(|token| token.to_str().ok()).unwrap_or_default();
    let mut issue = issue.lock();
    issue.requests.push(format!("{} {}", parts.method, parts.uri.path()));
    let of_method = |fault: &Fault| match fault {
        Fault::Instead(method, _) | Fault::LostAnswer(method) => *method == parts.method,
    };
    let fault = issue.faults.iter().position(of_method).map(|at| issue.faults.remove(at));
    if let Some(Fault::Instead(_, status)) = fault {
        return (StatusCode::from_u16(status).unwrap(), r#"{"message":"down"}"#).into_response();
    }
    let (status, value) = match token == format!("Bearer {TOKEN}") {
        true => issue.answer(&parts.method, parts.uri.path(), &sent),
        false => (401, json!({ "message": "Bad credentials" })),
    };
    let status = if matches!(fault, Some(Fault::LostAnswer(_))) { 502 } else { status };
    (StatusCode::from_u16(status).unwrap(), value.to_string()).into_response()
}

impl Issue {
    fn answer(&mut self, method: &Method, path: &str, sent: &Value) -> (u16, Value) {
        let text = || sent["body"].as_str().unwrap().to_owned();
        match (method.as_str(), path.strip_prefix("/repos/acme/notes/issues/").unwrap_or_default()) {
            ("GET", "12") => (200, json!({ "state": if self.is_closed { "closed" } else { "open" } })),
            ("PATCH", "12") => {
                assert_eq!(sent, &json!({ "state": "closed", "state_reason": "completed" }));
                self.is_closed = true;
                (200, json!({}))
            }
            ("GET", "12/comments") => {
                (200, self.comments.iter().map(|said| json!({ "id": said.id, "body": said.body })).collect())
            }
            ("POST", "12/comments") => {
                let id = 100 + self.comments.len() as u64;
                self.comments.push(Comment { id, body: text(), is_ours: true });
                (201, json!({ "id": id, "body": text() }))
            }
            ("PATCH", place) if place.starts_with("comments/") => {
                let id: u64 = place.trim_start_matches("comments/").parse().unwrap();
                match self.comments.iter_mut().find(|said| said.id == id) {
                    Some(said) if said.is_ours => {
                        said.body = text();
                        (200, json!({ "id": id }))
                    }
                    Some(_) => (403, json!({ "message": "Must have write access" })),
                    None => (404, json!({ "message": "Not Found" })),
                }
            }
            _ => (404, json!({ "message": "Not Found" })),
        }
    }
}

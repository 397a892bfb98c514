//! A fake GitHub: the used part of its API, over a real bare repository, with faults on demand.

mod answers;
mod book;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use testkit::host::clock;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub(crate) use book::{Book, Pull};

/// The token that the fake accepts. It must never appear anywhere else.
pub(crate) const TOKEN: &str = "ghp_canary0123456789";

/// The fault of one request.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// This is answered instead, and nothing is done.
    Instead(u16, &'static [(&'static str, &'static str)], &'static str),
    /// It is done, and the connection is cut before the client receives the answer.
    CutAfter,
    /// It is done, and the answer is delayed.
    Slow(Duration),
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) status: u16,
}

/// GitHub, as far as we need it.
pub(crate) struct GitHub {
    pub(crate) address: SocketAddr,
    inner: Arc<Inner>,
    _serving: JoinSet<()>,
}

struct Inner {
    book: Mutex<Book>,
    faults: Mutex<VecDeque<(Method, &'static str, Fault)>>,
    heard: Mutex<Vec<Heard>>,
}

impl GitHub {
    /// A GitHub that has one repository, `acme/notes`.
    pub(crate) async fn with(repo: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let inner =
            Arc::new(Inner { book: Mutex::new(Book::new(repo)), faults: Mutex::default(), heard: Mutex::default() });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, inner, _serving: serving }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Injects a fault into the next request of this method and path suffix.
    pub(crate) fn fail(&self, method: Method, path_end: &'static str, fault: Fault) {
        self.inner.faults.lock().push_back((method, path_end, fault));
    }

    /// Removes all faults.
    pub(crate) fn mend(&self) {
        self.inner.faults.lock().clear();
    }

    /// Requests of this method whose path ends so.
    pub(crate) fn heard(&self, method: &Method, path_end: &str) -> Vec<Heard> {
        let is_meant = |heard: &&Heard| heard.method == *method && heard.path.ends_with(path_end);
        self.inner.heard.lock().iter().filter(is_meant).cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.inner.heard.lock().len()
    }

    /// Its content, to inspect or to change as people and checks do.
    pub(crate) fn book<T>(&self, with: impl FnOnce(&mut Book) -> T) -> T {
        with(&mut self.inner.book.lock())
    }

    pub(crate) fn pulls(&self) -> Vec<Pull> {
        self.book(|book| book.pulls.clone())
    }
}

async fn answer(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let path = parts.uri.path().to_owned();
    let fault = take_fault(&inner, &parts.method, &path);
    let shown = parts.headers.get("authorization").and_then(|shown| shown.to_str().ok()).unwrap_or_default();
    let mut response = match &fault {
        Some(Fault::Instead(status, headers, body)) => {
            let mut response = (StatusCode::from_u16(*status).unwrap(), *body).into_response();
            for (name, value) in *headers {
                response.headers_mut().insert(*name, value.parse().unwrap());
            }
            response
        }
        _ if shown != format!("Bearer {TOKEN}") => {
            let words = format!(r#"{{"message":"Bad credentials: {shown}"}}"#);
            (StatusCode::UNAUTHORIZED, words).into_response()
        }
        _ => {
            let query = parts.uri.query().unwrap_or_default();
            let (status, value) = inner.book.lock().answer(&parts.method, &path, query, &bytes);
            let (value, last) = paged(value, query);
            let mut response = conditional(&parts.method, &parts.headers, status, &value);
            // An unchanged answer comes without its links.
            if response.status() == StatusCode::OK && last > 1 {
                let link = format!("<http://github.example{path}?page={last}&per_page=100>; rel=\"last\"");
                response.headers_mut().insert("link", link.parse().unwrap());
            }
            response
        }
    };
    inner.heard.lock().push(Heard {
        method: parts.method,
        path,
        headers: parts.headers,
        status: response.status().as_u16(),
    });
    match fault {
        Some(Fault::CutAfter) => {
            let cut = futures_util::stream::iter([Err::<Bytes, _>(std::io::Error::other("cut"))]);
            *response.body_mut() = Body::from_stream(cut);
            response
        }
        Some(Fault::Slow(pause)) => {
            clock().sleep(pause).await;
            response
        }
        _ => response,
    }
}

fn take_fault(inner: &Inner, method: &Method, path: &str) -> Option<Fault> {
    let mut faults = inner.faults.lock();
    let at = faults.iter().position(|(wanted, end, _)| wanted == method && path.ends_with(end))?;
    faults.remove(at).map(|(_, _, fault)| fault)
}

/// One page of a listing, and the number of its last one.
fn paged(mut value: Value, query: &str) -> (Value, usize) {
    let number = |key: &str| query.split('&').find_map(|part| part.strip_prefix(key)?.parse::<usize>().ok());
    let (Some(size), Some(page)) = (number("per_page="), number("page=")) else { return (value, 1) };
    let listing = match &mut value {
        Value::Array(all) => all,
        Value::Object(fields) => match fields.values_mut().find_map(Value::as_array_mut) {
            Some(all) => all,
            None => return (value, 1),
        },
        _ => return (value, 1),
    };
    let last = listing.len().div_ceil(size).max(1);
    *listing = listing.iter().skip((page - 1) * size).take(size).cloned().collect();
    (value, last)
}

/// An unchanged answer is not sent again.
fn conditional(method: &Method, headers: &HeaderMap, status: u16, value: &Value) -> Response {
    let text = value.to_string();
    let mut hasher = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(&text, &mut hasher);
    let etag = format!("\"{:x}\"", std::hash::Hasher::finish(&hasher));
    let is_known = headers.get("if-none-match").is_some_and(|known| known.as_bytes() == etag.as_bytes());
    if *method == Method::GET && status == 200 && is_known {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    (StatusCode::from_u16(status).unwrap(), [("etag", etag)], text).into_response()
}

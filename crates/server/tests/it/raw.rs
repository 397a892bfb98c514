//! Raw requests as other programs send them, valid or not.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// One connection for several requests.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    address: SocketAddr,
    _driver: JoinSet<()>,
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            let _ = connection.await;
        });
        Self { sender, address, _driver: driver }
    }

    /// Sends a request and returns the head of the answer.
    pub(crate) async fn head(&mut self, request: Asking) -> http::Response<Incoming> {
        let mut builder = Request::builder().method(request.method).uri(request.path);
        if !request.headers.iter().any(|(name, _)| name == "host") {
            builder = builder.header("host", self.address.to_string());
        }
        for (name, value) in request.headers {
            builder = builder.header(name, value);
        }
        self.sender.send_request(builder.body(Full::new(request.body)).unwrap()).await.unwrap()
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn ask(&mut self, request: Asking) -> Answer {
        let response = self.head(request).await;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer { status, headers, body }
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {:?}", self.body))
    }

    /// The code of the problem.
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        self.json()["code"].as_str().unwrap().to_owned()
    }
}

/// A request builder.
pub(crate) struct Asking {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Asking {
    pub(crate) fn new(method: Method, path: &str) -> Self {
        Self { method, path: path.to_owned(), headers: Vec::new(), body: Bytes::new() }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: &str) -> Self {
        Self::new(Method::POST, path)
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }
}

/// One request on its own connection.
pub(crate) async fn ask(address: SocketAddr, request: Asking) -> Answer {
    Connection::open(address).await.ask(request).await
}

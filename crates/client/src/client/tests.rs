use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::*;

/// Two coordinators of which the leader is gone: `interruptions` answers are `interruption`, the next ones are good.
struct Takeover {
    interruption: fn() -> Result<Response<ResponseBody>, TransportError>,
    interruptions: usize,
    asked: AtomicUsize,
}

#[async_trait]
impl HttpTransport for Takeover {
    async fn exchange(&self, _request: Request<Full<Bytes>>) -> Result<Response<ResponseBody>, TransportError> {
        match self.asked.fetch_add(1, Ordering::Relaxed) {
            n if n < self.interruptions => (self.interruption)(),
            _ => answer(200, &json!({ "answered": true })),
        }
    }
}

fn answer(status: u16, body: &Value) -> Result<Response<ResponseBody>, TransportError> {
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync();
    Ok(Response::builder().status(status).body(body).unwrap())
}

fn problem(status: u16, code: &str) -> Result<Response<ResponseBody>, TransportError> {
    answer(status, &json!({ "type": "urn:x", "title": "x", "status": status, "detail": "x", "code": code }))
}

/// The outcome of a request, and how often it was sent.
async fn asked(
    method: Method,
    bases: &str,
    interruption: fn() -> Result<Response<ResponseBody>, TransportError>,
) -> (Result<Value, ClientError>, usize) {
    let network = Arc::new(Takeover { interruption, interruptions: 2, asked: AtomicUsize::new(0) });
    let endpoint = Endpoint { base: bases.to_owned(), token: "t".to_owned(), product: None, trust: Trust::default() };
    let client = Client::over(network.clone(), endpoint).unwrap();
    let outcome = client.call(method, "/jobs", None::<&()>).await;
    (outcome, network.asked.load(Ordering::Relaxed))
}

const BOTH: &str = "http://a,http://b";

// [D3]
#[tokio::test]
async fn a_takeover_repeats_reads_and_writes_that_were_not_done() {
    let (outcome, sent) = asked(Method::GET, BOTH, || Err(TransportError::new("connection closed"))).await;
    assert_eq!((outcome.unwrap(), sent), (json!({ "answered": true }), 3));
    let (outcome, sent) = asked(Method::GET, BOTH, || problem(503, TIMED_OUT)).await;
    assert_eq!((outcome.is_ok(), sent), (true, 3));
    let (outcome, sent) = asked(Method::POST, BOTH, || problem(503, NOT_LEADER)).await;
    assert_eq!((outcome.is_ok(), sent), (true, 3));
}

// [D3] [I1]
#[tokio::test]
async fn a_write_with_an_unknown_outcome_is_sent_once() {
    let (outcome, sent) = asked(Method::POST, BOTH, || Err(TransportError::new("connection closed"))).await;
    assert!(matches!(outcome, Err(ClientError::NoAnswer { .. })) && sent == 1, "{outcome:?} {sent}");
    let (outcome, sent) = asked(Method::POST, BOTH, || problem(503, TIMED_OUT)).await;
    assert!(matches!(outcome, Err(ClientError::Refused(_))) && sent == 1, "{outcome:?} {sent}");
    // A rejection is not repeated either, nor is anything with one coordinator only.
    let (outcome, sent) = asked(Method::GET, BOTH, || problem(404, "job_unknown")).await;
    assert!(matches!(outcome, Err(ClientError::Refused(_))) && sent == 1, "{outcome:?} {sent}");
    let (outcome, sent) = asked(Method::GET, "http://a", || Err(TransportError::new("connection closed"))).await;
    assert!(matches!(outcome, Err(ClientError::NoAnswer { .. })) && sent == 1, "{outcome:?} {sent}");
}

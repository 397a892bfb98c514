//! Webhooks of GitHub: signed, and only a hint.

use domain::{JobId, PullRequest, StageName};
use hmac::{Hmac, KeyInit, Mac};
use http::StatusCode;
use protocol::{
    Directive, ErrandOutcome, ErrandReport, PollPullRequest, PullRequestReport, PullRequestReportResponse,
    PullRequestState, StageResponse,
};
use serde_json::{Value, json};
use server::{Options, WebhookSecret};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fleet::{Fleet, Worker, eventually, soon};
use crate::raw::{Answer, Asking, ask};

const SECRET: &str = "canary-of-the-webhook";

async fn fleet() -> Fleet {
    Fleet::with(Options { webhook_secret: WebhookSecret::new(SECRET), ..Options::default() }).await
}

fn signature(secret: &str, message: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(message.as_bytes());
    let digest: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digest}")
}

async fn say(fleet: &Fleet, secret: &str, message: &Value) -> Answer {
    let message = message.to_string();
    let signature = signature(secret, &message);
    let request = Asking::post("/webhooks/github").header("x-hub-signature-256", &signature).body(message);
    ask(fleet.address, request).await
}

/// A job with an open pull request.
async fn requested(fleet: &Fleet, factory: &Worker, inbox: &mut client::EventStream) -> JobId {
    let job = fleet.submit("---\ntitle: Fix the typo\nrepo: notes\n---\nPlease.\n").await;
    let epoch = factory.take_next(inbox).await.lease_epoch;
    factory.start(job, epoch).await.unwrap();
    let sha = "0123456789abcdef0123456789abcdef01234567".parse().unwrap();
    let order = factory.complete(job, epoch, Some(sha)).await.unwrap().promote.unwrap();
    let report = ErrandReport {
        lease_epoch: order.lease_epoch,
        outcome: ErrandOutcome::Done,
        pull_request: Some(PullRequest { number: 7, url: "https://github.com/acme/notes/pull/7".to_owned() }),
        conflicts_with: None,
    };
    let _: StageResponse = factory.client.post(&format!("/jobs/{job}/promote"), &report).await.unwrap();
    job
}

async fn next_look(inbox: &mut client::EventStream) -> PollPullRequest {
    loop {
        let event = soon(inbox.next()).await.unwrap().expect("the inbox ended");
        if event.event == "directive"
            && let Ok(Directive::Look(order)) = serde_json::from_str(&event.data)
        {
            return order;
        }
    }
}

// [§10]
#[tokio::test]
async fn a_signed_webhook_triggers_a_poll_whose_report_counts() {
    let fleet = fleet().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let job = requested(&fleet, &factory, &mut inbox).await;

    let message =
        json!({ "action": "closed", "pull_request": { "number": 7 }, "repository": { "full_name": "acme/notes" } });
    let heard = say(&fleet, SECRET, &message).await;
    let order = next_look(&mut inbox).await;
    let merged = PullRequestState::Merged { merge: None, by: Some("ann".to_owned()) };
    let report = PullRequestReport {
        number: 7,
        pull_request: merged,
        head: order.sha.clone(),
        comments: Vec::new(),
        approvals: Vec::new(),
    };
    let answer: PullRequestReportResponse =
        factory.client.post(&format!("/jobs/{job}/pull-request"), &report).await.unwrap();

    assert_eq!((heard.status, heard.json()), (StatusCode::OK, json!({ "jobs": 1 })));
    assert_eq!((order.job_id, order.number), (job, 7));
    assert_eq!(answer.stage, StageName::Shipped);
}

// [§10] [attack: forged or repeated webhook]
#[tokio::test]
async fn a_webhook_with_a_wrong_or_missing_signature_is_rejected() {
    let fleet = fleet().await;
    let message = json!({ "pull_request": { "number": 7 }, "repository": { "full_name": "acme/notes" } });

    let forged = say(&fleet, "guessed", &message).await;
    let unsigned = ask(fleet.address, Asking::post("/webhooks/github").body(message.to_string())).await;

    assert_eq!((forged.code(), unsigned.code()), ("unauthenticated".to_owned(), "unauthenticated".to_owned()));
    assert!(!format!("{forged:?}").contains(SECRET));
}

// [§10] [attack: forged or repeated webhook]
#[tokio::test]
async fn an_unrelated_webhook_is_accepted_without_effect() {
    let fleet = fleet().await;

    let ping = say(&fleet, SECRET, &json!({ "zen": "Keep it simple.", "hook_id": 1 })).await;
    let other = json!({ "pull_request": { "number": 7 }, "repository": { "full_name": "evil/notes" } });
    let other = say(&fleet, SECRET, &other).await;

    assert_eq!((ping.json(), other.json()), (json!({ "jobs": 0 }), json!({ "jobs": 0 })));
}

/// The head of a webhook that announces a long body; the body is not sent.
async fn begin(fleet: &Fleet, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(fleet.address).await.unwrap();
    let head = format!("POST /webhooks/github HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

async fn status(stream: &mut TcpStream) -> String {
    let mut status = [0; 12];
    soon(stream.read_exact(&mut status)).await.unwrap();
    String::from_utf8_lossy(&status).into_owned()
}

/// An unauthenticated body uses no memory before its signature can be valid (SECURITY, slow or greedy clients).
// [attack: slow or greedy clients]
#[tokio::test]
async fn an_unsigned_webhook_is_refused_before_its_body() {
    let fleet = fleet().await;
    let signature = signature(SECRET, "");

    let mut unsigned = begin(&fleet, "Content-Length: 26214400\r\n").await;
    let mut malformed = begin(&fleet, "Content-Length: 26214400\r\nX-Hub-Signature-256: sha256=7\r\n").await;
    let chunked = format!("Transfer-Encoding: chunked\r\nX-Hub-Signature-256: {signature}\r\n");
    let mut endless = begin(&fleet, &chunked).await;
    let mut huge = begin(&fleet, &format!("Content-Length: 26214401\r\nX-Hub-Signature-256: {signature}\r\n")).await;

    assert_eq!(status(&mut unsigned).await, "HTTP/1.1 401");
    assert_eq!(status(&mut malformed).await, "HTTP/1.1 401");
    assert_eq!(status(&mut endless).await, "HTTP/1.1 411");
    assert_eq!(status(&mut huge).await, "HTTP/1.1 413");
}

/// All bodies in progress share one budget, and a network has only a few of them at one time.
// [attack: slow or greedy clients]
#[tokio::test]
async fn unfinished_webhooks_do_not_accumulate() {
    let fleet = fleet().await;
    let wrong = signature("guessed", "");
    let head = format!("Content-Length: 26214400\r\nX-Hub-Signature-256: {wrong}\r\nExpect: 100-continue\r\n");
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut stream = begin(&fleet, &head).await;
        assert_eq!(status(&mut stream).await, "HTTP/1.1 100");
        open.push(stream);
    }

    let refused = say(&fleet, SECRET, &json!({ "zen": "Keep it simple." })).await;
    drop(open);

    assert_eq!(refused.code(), "rate_limited");
    eventually("there is room again", || async {
        say(&fleet, SECRET, &json!({ "zen": "Keep it simple." })).await.status == StatusCode::OK
    })
    .await;
}

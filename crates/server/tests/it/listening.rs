//! Listening, TLS, the OpenAPI document, shutdown.

use std::net::SocketAddr;

use client::{Client, Endpoint, Trust};
use http::StatusCode;
use protocol::{Health, JobList};
use serde_json::json;
use server::{BindError, Options, Server, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fleet::{Fleet, eventually, soon};
use crate::raw::{Asking, ask};

// [§12]
#[tokio::test]
async fn a_certificate_of_its_own_encrypts_end_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls = Tls { certificate: dir.path().join("cert.pem"), key: dir.path().join("key.pem") };
    std::fs::write(&tls.certificate, made.cert.pem()).unwrap();
    std::fs::write(&tls.key, made.signing_key.serialize_pem()).unwrap();
    let fleet = Fleet::with(Options { tls: Some(tls), ..Options::default() }).await;
    let endpoint = |trust| Endpoint {
        base: format!("https://localhost:{}", fleet.address.port()),
        token: fleet.admin_token.clone(),
        product: None,
        trust,
    };

    let trusting = Client::new(endpoint(Trust::Authority(made.cert.der().to_vec()))).unwrap();
    let jobs: JobList = trusting.get("/jobs").await.unwrap();
    let doubting: Result<JobList, _> = Client::new(endpoint(Trust::Public)).unwrap().get("/jobs").await;

    assert_eq!(jobs.items, vec![]);
    assert!(doubting.is_err());
}

// [§12]
#[tokio::test]
async fn tokens_never_travel_in_the_clear_between_machines() {
    let anywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();

    let bare = Server::bind(Options { listen: anywhere, ..Options::default() }).await.map(|_| ());
    let proxied = Server::bind(Options { listen: anywhere, behind_proxy: true, ..Options::default() }).await;

    let Err(BindError::Unprotected { address }) = bare else { panic!("{bare:?}") };
    assert_eq!(address, anywhere);
    assert!(proxied.is_ok());
}

#[tokio::test]
async fn an_unreadable_certificate_is_named() {
    let tls = Tls { certificate: "no/such/cert.pem".into(), key: "no/such/key.pem".into() };

    let bound = Server::bind(Options { tls: Some(tls), ..Options::default() }).await.map(|_| ());

    let message = bound.unwrap_err().to_string();
    assert!(message.contains("no/such/cert.pem"), "{message}");
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let fleet = Fleet::start().await;

    let bound = Server::bind(Options { listen: fleet.address, ..Options::default() }).await.map(|_| ());

    assert_eq!(bound.unwrap_err().to_string(), format!("cannot listen on `{}`", fleet.address));
}

// [§10]
#[tokio::test]
async fn health_and_readiness_need_no_token() {
    let fleet = Fleet::start().await;

    let health = ask(fleet.address, Asking::get("/healthz")).await;
    let ready = ask(fleet.address, Asking::get("/readyz")).await;
    fleet.store.close().await.unwrap();
    let closed = ask(fleet.address, Asking::get("/readyz")).await;

    assert_eq!((health.status, ready.status), (StatusCode::OK, StatusCode::OK));
    let health: Health = serde_json::from_slice(&health.body).unwrap();
    assert_eq!(health.status, "ok");
    assert_eq!(closed.code(), "store_unavailable");
}

#[tokio::test]
async fn a_store_failure_is_not_a_decision() {
    let fleet = Fleet::start().await;
    fleet.store.close().await.unwrap();

    let refused: Result<JobList, _> = fleet.admin.get("/jobs").await;

    let error = refused.unwrap_err();
    assert_eq!(error.code(), Some("store_unavailable"));
    assert!(!error.is_final());
}

// [§10]
#[tokio::test]
async fn an_unchanged_job_is_not_sent_again() {
    let fleet = Fleet::start().await;
    let id = fleet.submit("---\ncapabilities: [has:nothing]\n---\n# One\n").await;
    let job = format!("/api/fleet/jobs/{id}");
    let get = |path: &str, tag: &str| Asking::get(path).token(&fleet.admin_token).header("if-none-match", tag);

    let first = ask(fleet.address, Asking::get(&job).token(&fleet.admin_token)).await;
    let tag = first.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(tag, format!("\"{}\"", first.json()["rev"]));
    let same = ask(fleet.address, get(&job, &tag)).await;
    let _: serde_json::Value = fleet.admin.post(&format!("/jobs/{id}/actions/cancel"), &json!({})).await.unwrap();
    let changed = ask(fleet.address, get(&job, &tag)).await;

    assert_eq!((same.status, same.body.len()), (StatusCode::NOT_MODIFIED, 0));
    assert_eq!(changed.status, StatusCode::OK);
}

/// Two operators open one job; only the one with the latest revision may change it.
// [§10]
#[tokio::test]
async fn a_change_of_an_outdated_revision_is_rejected() {
    let fleet = Fleet::start().await;
    let id = fleet.submit("---\ncapabilities: [has:nothing]\n---\n# One\n").await;
    let path = format!("/api/fleet/jobs/{id}");
    let seen = ask(fleet.address, Asking::get(&path).token(&fleet.admin_token)).await;
    let tag = seen.headers["etag"].to_str().unwrap().to_owned();
    let act = |action: &str, tag: &str| {
        let path = format!("{path}/actions/{action}");
        let body = json!({ "priority": "high" });
        Asking::post(&path).token(&fleet.admin_token).header("if-match", tag).json(&body)
    };

    let first = ask(fleet.address, act("priority", &tag)).await;
    let late = ask(fleet.address, act("cancel", &tag)).await;
    let foreign = ask(fleet.address, act("cancel", "\"9.9\"")).await;
    let any = ask(fleet.address, act("cancel", "*")).await;

    assert_eq!((first.status, first.json()["priority"].clone()), (StatusCode::OK, json!("high")));
    assert_eq!((late.status, late.code()), (StatusCode::PRECONDITION_FAILED, "precondition_failed".to_owned()));
    assert_eq!(foreign.status, StatusCode::PRECONDITION_FAILED);
    assert_eq!((any.status, any.json()["stage"].clone()), (StatusCode::OK, json!("failed")));
}

// [§10]
#[tokio::test]
async fn a_checkpoint_of_an_outdated_revision_is_rejected() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit("# One\n").await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    let path = format!("/api/fleet/jobs/{id}");
    let seen = ask(fleet.address, Asking::get(&path).token(&fleet.admin_token)).await;
    let tag = seen.headers["etag"].to_str().unwrap().to_owned();
    let patch = || {
        let body = json!({ "leaseEpoch": epoch, "stage": "building", "engine": "command" });
        Asking::new(http::Method::PATCH, &path).token(&factory.token).header("if-match", &tag).json(&body)
    };

    let first = ask(fleet.address, patch()).await;
    let late = ask(fleet.address, patch()).await;

    assert_eq!(first.status, StatusCode::OK);
    assert_eq!(late.code(), "precondition_failed");
}

// [§10]
#[tokio::test]
async fn unchanged_modes_are_not_sent_again() {
    let fleet = Fleet::start().await;
    let get = || Asking::get("/api/fleet/flags").token(&fleet.admin_token);
    let tag = ask(fleet.address, get()).await.headers["etag"].to_str().unwrap().to_owned();

    let same = ask(fleet.address, get().header("if-none-match", &tag)).await;

    assert_eq!((same.status, same.body.len()), (StatusCode::NOT_MODIFIED, 0));
}

#[tokio::test]
async fn a_product_that_does_not_exist_is_not_found() {
    let fleet = Fleet::start().await;

    let missing = ask(fleet.address, Asking::get("/api/fleet/products/nope").token(&fleet.admin_token)).await;

    assert_eq!((missing.status, missing.code()), (StatusCode::NOT_FOUND, "unknown_product".to_owned()));
}

// [§10]
#[tokio::test]
async fn a_delete_answers_without_content() {
    let fleet = Fleet::start().await;
    let _factory = fleet.factory("mac-1").await;
    let token = fleet.token(domain::TokenScope::Admin).await.token.id;
    let delete = |path: String| Asking::new(http::Method::DELETE, &path).token(&fleet.admin_token);

    for path in [format!("/api/fleet/tokens/{token}"), "/api/fleet/factories/mac-1".to_owned()] {
        let gone = ask(fleet.address, delete(path.clone())).await;
        let again = ask(fleet.address, delete(path)).await;

        assert_eq!((gone.status, gone.body.len()), (StatusCode::NO_CONTENT, 0));
        assert_eq!(again.status, StatusCode::NOT_FOUND);
    }
}

// [D1] [§10]
#[tokio::test]
async fn an_unchanged_queue_is_not_sent_again() {
    let fleet = Fleet::start().await;
    let path = "/api/fleet/queue-state?products=default";
    let first = ask(fleet.address, Asking::get(path).token(&fleet.admin_token)).await;
    let tag = first.headers["etag"].to_str().unwrap().to_owned();
    let get = || Asking::get(path).token(&fleet.admin_token).header("if-none-match", &tag);

    let same = ask(fleet.address, get()).await;
    fleet.submit("# One\n").await;
    let changed = ask(fleet.address, get()).await;

    assert!(tag.starts_with("W/"), "{tag}");
    assert_eq!((same.status, changed.status), (StatusCode::NOT_MODIFIED, StatusCode::OK));
    assert_eq!(changed.json()[0]["pendingCount"], json!(1));
}

#[tokio::test]
async fn a_request_in_progress_is_answered_before_the_server_stops() {
    let mut fleet = Fleet::start().await;
    let body = json!({ "bodyMd": "# Last words\n" }).to_string();
    let mut stream = begin_submit(&fleet, body.len()).await;

    fleet.shutdown.cancel();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    soon(stream.read_to_end(&mut answer)).await.unwrap();

    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    soon(fleet.serving.join_next()).await.unwrap().unwrap();
    assert!(TcpStream::connect(fleet.address).await.is_err(), "the server does not listen any more");
}

/// A client that disconnects early has still submitted: a written job must also be dispatched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_completes_after_its_client_disconnects() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let _inbox = factory.inbox().await;
    let body = json!({ "bodyMd": "# Asked and gone\n" }).to_string();

    for _ in 0..8 {
        let mut stream = begin_submit(&fleet, body.len()).await;
        stream.write_all(body.as_bytes()).await.unwrap();
    }

    eventually("every job is offered", || async {
        let jobs: JobList = fleet.admin.get("/jobs").await.unwrap();
        jobs.items.len() == 8 && jobs.items.iter().all(|job| job.target_factory_id.is_some())
    })
    .await;
}

/// A submit whose handler waits for the body.
async fn begin_submit(fleet: &Fleet, len: usize) -> TcpStream {
    let mut stream = TcpStream::connect(fleet.address).await.unwrap();
    let head = format!(
        "POST /api/fleet/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {len}\r\nExpect: 100-continue\r\n\r\n",
        fleet.admin_token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    soon(stream.read_exact(&mut go_on)).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

// [D4] [§10]
#[tokio::test]
async fn prometheus_metrics_are_served() {
    let fleet = Fleet::start().await;
    fleet.submit("# One\n").await;

    let figures = ask(fleet.address, Asking::get("/metrics")).await;

    let text = String::from_utf8_lossy(&figures.body).into_owned();
    assert_eq!(figures.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert!(text.contains("giga_jobs{stage=\"queued\"} 1\n"), "{text}");
    assert!(text.contains("giga_submitted_total 1\n"), "{text}");
}

// [§10]
#[tokio::test]
async fn behind_a_proxy_the_metrics_need_a_token() {
    let fleet = Fleet::with(Options { behind_proxy: true, ..Options::default() }).await;

    let bare = ask(fleet.address, Asking::get("/metrics")).await;
    let shown = ask(fleet.address, Asking::get("/metrics").token(&fleet.admin_token)).await;

    assert_eq!(bare.code(), "unauthenticated");
    assert_eq!(shown.status, StatusCode::OK);
}

/// `UPDATE_GOLDEN=1` rewrites the file.
// [§10]
#[tokio::test]
async fn the_openapi_document_matches_the_golden_file() {
    let fleet = Fleet::start().await;
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/openapi.json");

    let served = ask(fleet.address, Asking::get("/openapi.json")).await;
    let served = String::from_utf8(served.body.to_vec()).unwrap() + "\n";

    assert!(
        testkit::golden_matches(&golden, &served),
        "openapi.json is stale: run the tests with UPDATE_GOLDEN=1 and look at the difference"
    );
}

//! Protection against unauthorised, slow and greedy clients.

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::json;
use server::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fleet::{Fleet, soon};
use crate::raw::{Asking, Connection, ask};

const JOBS: &str = "/api/fleet/jobs";

// [attack: CSRF, DNS rebinding]
#[tokio::test]
async fn a_foreign_host_is_refused_everywhere() {
    let fleet = Fleet::start().await;

    for path in ["/", "/healthz", "/openapi.json", JOBS, "/nowhere"] {
        let asking = Asking::get(path).token(&fleet.admin_token).header("host", "evil.example");
        let answer = ask(fleet.address, asking).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::FORBIDDEN, "foreign_host"), "{path}");
    }
    let local = Asking::get(JOBS).token(&fleet.admin_token).header("host", "localhost");
    assert_eq!(ask(fleet.address, local).await.status, StatusCode::OK);
}

// [T4] [attack: CSRF, DNS rebinding]
#[tokio::test]
async fn pages_of_other_sites_change_nothing() {
    let fleet = Fleet::start().await;
    let submit = || {
        let body = serde_json::json!({ "bodyMd": "# x\n" });
        Asking::post(JOBS).token(&fleet.admin_token).json(&body)
    };

    let foreign = ask(fleet.address, submit().header("origin", "https://evil.example")).await;
    let own = ask(fleet.address, submit().header("origin", &fleet.base)).await;

    assert_eq!(foreign.code(), "foreign_origin");
    assert_eq!(own.status, StatusCode::CREATED);
    assert_eq!(fleet.log().await.len(), 1);
}

// [attack: token guessing]
#[tokio::test]
async fn wrong_tokens_are_limited_while_good_ones_work() {
    let fleet = Fleet::limited(Limits { wrong_tokens_max: 20, ..Limits::default() }).await;
    let mut connection = Connection::open(fleet.address).await;

    let mut refused = Vec::new();
    for n in 0..200 {
        let guess = Asking::get(JOBS).token(&format!("giga_adm_guess{n}"));
        refused.push(connection.ask(guess).await);
        let good = connection.ask(Asking::get(JOBS).token(&fleet.admin_token)).await;
        assert_eq!(good.status, StatusCode::OK, "after guess {n}");
    }

    let codes: Vec<_> = refused.iter().map(|answer| answer.code()).collect();
    assert!(codes[..20].iter().all(|code| code == "unauthenticated"), "{codes:?}");
    assert!(codes[20..].iter().all(|code| code == "rate_limited"), "{codes:?}");
    assert_eq!(refused[0].headers["www-authenticate"], "Bearer");
    let wait: u64 = refused[20].headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let join = serde_json::json!({ "joinToken": "giga_join_guess", "factoryId": "mac-1" });
    let enroll = connection.ask(Asking::post("/api/fleet/factories/enroll").json(&join)).await;
    assert_eq!(enroll.code(), "rate_limited", "join tokens cannot be guessed either");
}

// [§10]
#[tokio::test]
async fn unknown_paths_and_methods_are_problems_too() {
    let fleet = Fleet::start().await;

    let nowhere = ask(fleet.address, Asking::get("/api/fleet/nowhere").token(&fleet.admin_token)).await;
    let method = ask(fleet.address, Asking::new(Method::PUT, JOBS).token(&fleet.admin_token)).await;

    assert_eq!((nowhere.status.as_u16(), nowhere.code().as_str()), (404, "no_such_route"));
    assert_eq!((method.status.as_u16(), method.code().as_str()), (405, "method_not_allowed"));
    let mut allowed: Vec<_> = method.headers["allow"].to_str().unwrap().split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, vec!["GET", "HEAD", "POST"]);
}

#[tokio::test]
async fn answers_are_neither_cached_nor_sniffed() {
    let fleet = Fleet::start().await;

    for path in ["/healthz", JOBS, "/nowhere"] {
        let answer = ask(fleet.address, Asking::get(path).token(&fleet.admin_token)).await;
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(answer.headers["cache-control"], "no-store", "{path}");
    }
}

// [attack: slow or greedy clients]
#[tokio::test]
async fn a_client_that_sends_its_head_slowly_is_disconnected() {
    let fleet = Fleet::limited(Limits { header_time_max: Duration::from_millis(200), ..Limits::default() }).await;
    let mut stream = TcpStream::connect(fleet.address).await.unwrap();
    stream.write_all(b"GET /healthz HT").await.unwrap();

    let mut rest = Vec::new();
    soon(stream.read_to_end(&mut rest)).await.unwrap();

    assert_eq!(String::from_utf8_lossy(&rest), "");
}

// [attack: slow or greedy clients]
#[tokio::test]
async fn a_body_that_never_ends_times_out() {
    let fleet = Fleet::limited(Limits { body_time_max: Duration::from_millis(200), ..Limits::default() }).await;
    let mut stream = TcpStream::connect(fleet.address).await.unwrap();
    let head = format!(
        "POST {JOBS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: 100\r\n\r\n{{",
        fleet.admin_token
    );
    stream.write_all(head.as_bytes()).await.unwrap();

    let mut answer = Vec::new();
    soon(stream.read_to_end(&mut answer)).await.unwrap();

    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("unfinished_body"), "{answer}");
}

// [attack: slow or greedy clients]
#[tokio::test]
async fn a_body_of_a_gigabyte_is_refused_before_it_arrives() {
    let fleet = Fleet::start().await;
    let mut stream = TcpStream::connect(fleet.address).await.unwrap();
    let head = format!(
        "POST {JOBS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: 1073741824\r\n\r\n{{",
        fleet.admin_token
    );
    stream.write_all(head.as_bytes()).await.unwrap();

    let mut answer = Vec::new();
    soon(stream.read_to_end(&mut answer)).await.unwrap();

    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

/// Idle connections lock out no new client (SECURITY, slow or greedy clients).
// [attack: slow or greedy clients]
#[tokio::test]
async fn idle_connections_are_closed_for_new_ones() {
    let fleet = Fleet::limited(Limits { connections_max: 4, ..Limits::default() }).await;
    let mut events = fleet.admin.events("/events/stream", None).await.unwrap();
    soon(events.next()).await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..40 {
        idle.push(TcpStream::connect(fleet.address).await.unwrap());
    }

    let submit = Asking::post("/api/fleet/jobs").token(&fleet.admin_token).json(&json!({ "bodyMd": "# One\n" }));
    let submitted = soon(ask(fleet.address, submit)).await;
    let event = soon(events.next()).await.unwrap().unwrap();

    assert_eq!(submitted.status, StatusCode::CREATED);
    assert_eq!(event.event, "job", "a stream is no idle connection");
    assert_eq!(soon(idle[0].read(&mut [0])).await.unwrap(), 0, "the oldest was closed");
    let last = idle.last_mut().unwrap();
    last.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    soon(last.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "the newest was not: {answer}");
}

// [attack: slow or greedy clients]
#[tokio::test]
async fn a_connection_waits_while_all_others_are_busy() {
    let fleet = Fleet::limited(Limits { connections_max: 1, ..Limits::default() }).await;
    let mut events = fleet.admin.events("/events/stream", None).await.unwrap();
    soon(events.next()).await.unwrap();

    let waiting = ask(fleet.address, Asking::get("/healthz"));
    let mut waiting = Box::pin(waiting);
    let early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(early.is_err(), "the second has to wait");
    drop(events);

    assert_eq!(soon(waiting).await.status, StatusCode::OK);
}

// [I12] [attack: secrets in logs, events, artifacts]
#[tokio::test]
async fn secrets_never_appear_in_output() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;

    let mut shown = Vec::new();
    for path in ["/api/fleet/tokens", "/api/fleet/factories", "/metrics", "/openapi.json"] {
        shown.push(ask(fleet.address, Asking::get(path).token(&fleet.admin_token)).await.body);
    }

    for body in shown {
        let text = String::from_utf8_lossy(&body);
        assert!(!text.contains(&fleet.admin_token) && !text.contains(&factory.token), "{text}");
    }
}

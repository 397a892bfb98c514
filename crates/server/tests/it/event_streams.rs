//! Event streams: no gaps, no duplicates, and closed when they must end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, EventStream};
use clock::{ManualClock, SeededEntropy, SystemClock};
use domain::{Clock, Entropy, Position, StoredEvent, TokenScope};
use protocol::{BatchRequest, BatchResponse, ProductSettings, SseEvent, SubmitRequest};
use serde_json::json;
use server::Limits;
use tokio::task::JoinSet;

use crate::fleet::{Fleet, code, eventually, soon};
use crate::raw::{Asking, Connection, ask};

const STREAM: &str = "/events/stream";

/// More than the buffers of two sockets hold.
const LOUD_MIB: usize = 24;

/// The next event, without those about the fleet.
async fn next(stream: &mut EventStream) -> Option<SseEvent> {
    loop {
        match soon(stream.next()).await.unwrap() {
            Some(event) if is_about_the_fleet(&event) => {}
            event => return event,
        }
    }
}

fn is_about_the_fleet(event: &SseEvent) -> bool {
    ["factory", "alert", "flags", "metrics", "needs"].contains(&event.event.as_str())
}

/// The next job event.
async fn next_of_job(stream: &mut EventStream) -> Option<SseEvent> {
    loop {
        match next(stream).await {
            Some(event) if event.event == "hello" => {}
            event => return event,
        }
    }
}

fn as_streamed(log: &[StoredEvent]) -> Vec<(String, String)> {
    log.iter().map(|event| (event.position.to_string(), event.json.as_ref().to_owned())).collect()
}

// [§10]
#[tokio::test]
async fn a_stream_has_every_event_after_its_start() {
    let fleet = Fleet::start().await;
    fleet.submit("# Before\n").await;
    let mut stream = fleet.admin.events(STREAM, None).await.unwrap();
    let hello = next(&mut stream).await.unwrap();
    let begins = fleet.log().await.len();
    assert_eq!((hello.event.as_str(), hello.id), ("hello", Some(begins.to_string())));

    fleet.submit("# After\n").await;
    let event = next(&mut stream).await.unwrap();

    assert_eq!(event.event, "job");
    let log = fleet.log().await;
    assert_eq!((event.id.unwrap(), event.data), as_streamed(&log)[begins]);
}

// [§10]
#[tokio::test]
async fn one_jobs_stream_is_about_that_job() {
    let fleet = Fleet::start().await;
    let one = fleet.submit("# One\n").await;
    let mut stream = fleet.admin.events(&format!("/jobs/{one}/events/stream?after=0"), None).await.unwrap();
    let submitted = next_of_job(&mut stream).await.unwrap();
    fleet.submit("# Two\n").await;
    let _: serde_json::Value = fleet.admin.post(&format!("/jobs/{one}/actions/cancel"), &json!({})).await.unwrap();
    let cancelled = next_of_job(&mut stream).await.unwrap();

    let kind = |event: &SseEvent| serde_json::from_str::<serde_json::Value>(&event.data).unwrap()["kind"].clone();
    assert_eq!((kind(&submitted), kind(&cancelled)), (json!("submitted"), json!("cancelled")));
}

/// Row 24: clients that are disconnected at random and resume see the whole log, without duplicates.
// [J7]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_24_disconnected_clients_see_the_whole_log_once() {
    let fleet = Fleet::start().await;
    fleet.product("web", ProductSettings::default()).await;
    let viewer = fleet.token(TokenScope::Viewer { products: ["web".parse().unwrap()].into() }).await;
    let of_web = fleet.client(&viewer.secret);
    let chance = Arc::new(SeededEntropy::new(24));
    let last_title = "The last one";

    let mut watchers = JoinSet::new();
    for n in 0..200 {
        let client = if n % 2 == 0 { fleet.admin.clone() } else { of_web.clone() };
        let chance = Arc::clone(&chance);
        watchers.spawn(async move { (n, watch_with_cuts(client, &*chance, last_title).await) });
    }
    for round in 0..20 {
        let jobs = (0..20).map(|n| {
            let product = if n % 3 == 0 { "web" } else { "default" };
            SubmitRequest {
                body_md: format!("---\nproduct: {product}\n---\n# Job {round}-{n}\n"),
                ..SubmitRequest::default()
            }
        });
        let _: BatchResponse = fleet.admin.post("/jobs/batch", &BatchRequest { jobs: jobs.collect() }).await.unwrap();
    }
    fleet.submit(&format!("---\nproduct: web\ntitle: {last_title}\n---\n")).await;

    let log = fleet.log().await;
    let web: Vec<_> = log.iter().filter(|event| event.product.as_str() == "web").cloned().collect();
    while let Some(watched) = watchers.join_next().await {
        let (n, seen) = watched.unwrap();
        let expected = as_streamed(if n % 2 == 0 { &log } else { &web });
        assert_eq!(seen, expected, "watcher {n}");
    }
}

async fn watch_with_cuts(client: Client, chance: &dyn Entropy, last_title: &str) -> Vec<(String, String)> {
    let mut seen: Vec<(String, String)> = Vec::new();
    loop {
        let after = seen.last().map_or_else(|| "0".to_owned(), |(id, _)| id.clone());
        let mut stream = client.events(STREAM, Some(&after)).await.unwrap();
        let [cut_after] = chance.bytes::<1>();
        for _ in 0..=cut_after % 48 {
            let event = next_of_job(&mut stream).await.expect("the stream goes on");
            assert_eq!(event.event, "job");
            let is_last = event.data.contains(last_title);
            seen.push((event.id.unwrap(), event.data));
            if is_last {
                return seen;
            }
        }
    }
}

// [J7] [row 24]
#[tokio::test]
async fn an_unknown_position_is_answered_with_a_reset() {
    let fleet = Fleet::start().await;
    fleet.submit("# One\n").await;

    let mut stream = fleet.admin.events(STREAM, Some("4711")).await.unwrap();
    let reset = next_of_job(&mut stream).await.unwrap();
    fleet.submit("# Two\n").await;
    let goes_on = next(&mut stream).await.unwrap();

    let log = fleet.log().await;
    let expected =
        SseEvent { id: Some("1".to_owned()), event: "reset".to_owned(), data: r#"{"reason":"unknown"}"#.to_owned() };
    assert_eq!(reset, expected);
    assert_eq!((goes_on.id.unwrap(), goes_on.data), as_streamed(&log)[1]);
    let garbled = Asking::get("/api/fleet/events/stream").token(&fleet.admin_token).header("last-event-id", "x");
    assert_eq!(ask(fleet.address, garbled).await.code(), "invalid");
}

// [attack: stolen factory token]
#[tokio::test]
async fn a_revoked_token_ends_its_streams() {
    let limits = Limits { token_check_every: Duration::from_millis(100), ..Limits::default() };
    let fleet = Fleet::limited(limits).await;
    let viewer = fleet.token(TokenScope::Viewer { products: BTreeSet::new() }).await;
    let factory = fleet.factory("mac-1").await;
    let mut watching = fleet.client(&viewer.secret).events(STREAM, None).await.unwrap();
    let mut working = factory.inbox().await;
    let mut unaffected = fleet.admin.events(STREAM, None).await.unwrap();
    assert_eq!(next(&mut watching).await.unwrap().event, "hello");
    assert_eq!(next(&mut working).await.unwrap().event, "hello");
    assert_eq!(next(&mut unaffected).await.unwrap().event, "hello");

    let path = format!("/tokens/{}", viewer.token.id);
    let _: () = fleet.admin.call(http::Method::DELETE, &path, None::<&()>).await.unwrap();
    let _: () = fleet.admin.post("/factories/mac-1/token/revoke", &json!({})).await.unwrap();

    let ended = async { (watching.next().await.unwrap(), working.next().await.unwrap()) };
    let ended = tokio::time::timeout(Duration::from_secs(5), ended).await.expect("both end within five seconds");
    assert_eq!(ended, (None, None));
    fleet.submit("# One\n").await;
    assert_eq!(next(&mut unaffected).await.unwrap().event, "job");
}

// [attack: stolen factory token]
#[tokio::test]
async fn an_expired_token_ends_its_streams() {
    let limits = Limits { token_check_every: Duration::from_millis(100), ..Limits::default() };
    let clock = ManualClock::default();
    let fleet = Fleet::by(Arc::new(clock.clone()), limits).await;
    let request = json!({ "name": "short", "grant": { "role": "viewer" }, "ttlSeconds": 2 });
    let made: protocol::CreateTokenResponse = fleet.admin.post("/tokens", &request).await.unwrap();
    let mut stream = fleet.client(&made.secret).events(STREAM, None).await.unwrap();
    assert_eq!(next(&mut stream).await.unwrap().event, "hello");

    clock.advance(Duration::from_secs(1));
    fleet.submit("# Still seen\n").await;
    assert_eq!(next(&mut stream).await.unwrap().event, "job");
    let time = async {
        loop {
            clock.advance(Duration::from_secs(1));
            SystemClock::new().sleep(Duration::from_millis(20)).await;
        }
    };
    let ended = tokio::select! {
        ended = next(&mut stream) => ended,
        () = time => unreachable!("time goes on for ever"),
    };

    assert_eq!(ended, None);
}

// [attack: slow or greedy clients]
#[tokio::test]
async fn a_token_has_a_bounded_number_of_streams() {
    let fleet = Fleet::limited(Limits { streams_per_token_max: 2, ..Limits::default() }).await;
    let viewer = fleet.token(TokenScope::Viewer { products: BTreeSet::new() }).await;
    let client = fleet.client(&viewer.secret);
    let first = client.events(STREAM, None).await.unwrap();
    let _second = client.events(STREAM, None).await.unwrap();

    let third = client.events(STREAM, None).await.map(|_| ());
    assert_eq!(code(third), "rate_limited");
    let _others_are_unaffected = fleet.admin.events(STREAM, None).await.unwrap();
    drop(first);

    eventually("a stream that ended makes room", || async { client.events(STREAM, None).await.is_ok() }).await;
}

#[tokio::test]
async fn an_idle_stream_sends_keep_alives() {
    let fleet = Fleet::limited(Limits { keep_alive_every: Duration::from_millis(50), ..Limits::default() }).await;
    let mut connection = Connection::open(fleet.address).await;
    let asking = Asking::get("/api/fleet/events/stream").token(&fleet.admin_token);
    let response = connection.head(asking).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-store");

    let mut body = response.into_body();
    let mut text = String::new();
    while text.matches(": alive\n\n").count() < 3 {
        let frame = soon(http_body_util::BodyExt::frame(&mut body)).await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
}

#[tokio::test]
async fn stopping_the_server_ends_its_streams_and_finishes() {
    let mut fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut watching = fleet.admin.events(STREAM, None).await.unwrap();
    let mut working = factory.inbox().await;
    assert_eq!(next(&mut watching).await.unwrap().event, "hello");
    assert_eq!(next(&mut working).await.unwrap().event, "hello");

    fleet.shutdown.cancel();

    assert_eq!(next(&mut watching).await, None);
    assert_eq!(next(&mut working).await, None);
    soon(fleet.serving.join_next()).await.unwrap().unwrap();
    assert_eq!(fleet.log().await.last().map(|last| last.position), None::<Position>);
}

// [attack: slow or greedy clients]
#[tokio::test]
async fn a_client_that_never_reads_is_disconnected() {
    let fleet = Fleet::limited(Limits { write_stall_max: Duration::from_millis(300), ..Limits::default() }).await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit("# Loud\n").await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();
    drop(inbox);
    for n in 0..LOUD_MIB {
        let chunk = bytes::Bytes::from(vec![b'x'; 1024 * 1024]);
        let path = format!("/jobs/{id}/logs?leaseEpoch={epoch}&offset={}", n * 1024 * 1024);
        let _: protocol::AppendLogResponse = factory.client.post_bytes(&path, chunk).await.unwrap();
    }
    let streams = || async {
        let text = ask(fleet.address, Asking::get("/metrics")).await;
        String::from_utf8_lossy(&text.body)
            .lines()
            .find_map(|line| line.strip_prefix("giga_streams_open ")?.parse().ok())
    };

    // It counts as open before it is answered.
    let mut unread = fleet.admin.bytes(&format!("/jobs/{id}/logs")).await.unwrap();
    eventually("the stream was cut", || async { streams().await == Some(0_u32) }).await;

    let mut arrived = 0;
    while let Ok(Some(piece)) = soon(unread.next()).await {
        arrived += piece.len();
    }
    assert!(arrived < LOUD_MIB * 1024 * 1024, "all {arrived} bytes of it came");
}

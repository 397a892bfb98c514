//! A coordinator that does not lead answers as the leader does, and never forwards in circles [D3] [D6].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use client::{Endpoint, Trust};
use clock::SystemClock;
use domain::{Leader, Timestamp};
use http::StatusCode;
use protocol::{SubmitRequest, SubmitResponse};
use server::{Options, Server};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::fleet::Fleet;
use crate::raw::{Asking, ask};

const PATIENCE: Duration = Duration::from_secs(20);
const MANIFEST: &str = "# Mend the gate\n\nIt squeaks.\n";

/// A server that follows.
struct Follower {
    address: SocketAddr,
    leader: watch::Sender<Option<Leader>>,
    shutdown: CancellationToken,
    _serving: JoinSet<()>,
}

impl Follower {
    async fn of(leader: Option<Leader>) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(Options { listen, ..Options::default() }).await.unwrap();
        let (address, shutdown) = (server.address(), CancellationToken::new());
        let (leader, known) = watch::channel(leader);
        let network = client::real_network(&Trust::Public).unwrap();
        let server = server.shared(Arc::new(SystemClock::new()), known, network, shutdown.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move { server.serve().await });
        Self { address, leader, shutdown, _serving: serving }
    }

    fn client(&self, token: &str) -> client::Client {
        let base = format!("http://{}", self.address);
        let endpoint = Endpoint { base, token: token.to_owned(), product: None, trust: Trust::Public };
        client::Client::new(endpoint).unwrap()
    }
}

fn leader(term: u64, base: &str) -> Option<Leader> {
    let (address, hop_secret) = (Some(base.to_owned()), "secret-of-the-term".to_owned());
    Some(Leader { term, address, hop_secret, since: Timestamp::from_millis(0) })
}

// [D3] [D6]
#[tokio::test]
async fn a_follower_answers_byte_for_byte_as_the_leader() {
    let fleet = Fleet::start().await;
    let follower = Follower::of(leader(1, &fleet.base)).await;
    let id = fleet.submit(MANIFEST).await;
    let bearer = format!("Bearer {}", fleet.admin_token);
    let (job, body) = (format!("/api/fleet/jobs/{id}"), "x".repeat(3_000_000));

    for path in [job.as_str(), "/api/fleet/jobs?limit=1", "/api/fleet/nowhere", "/openapi.json", "/api/fleet/products"]
    {
        let asking = || Asking::get(path).header("authorization", &bearer);
        let (own, forwarded) = (ask(fleet.address, asking()).await, ask(follower.address, asking()).await);
        assert_eq!((own.status, &own.body), (forwarded.status, &forwarded.body), "{path}");
        for name in ["content-type", "etag", "cache-control", "content-length"] {
            assert_eq!(own.headers.get(name), forwarded.headers.get(name), "{name} of {path}");
        }
    }
    let unknown = ask(follower.address, Asking::get("/api/fleet/jobs").header("authorization", "Bearer x")).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (StatusCode::UNAUTHORIZED, "unauthenticated"));
    let long = Asking::new(http::Method::POST, "/api/fleet/jobs")
        .header("authorization", &bearer)
        .header("content-type", "application/json")
        .body(body);
    assert_eq!(ask(follower.address, long).await.status, StatusCode::PAYLOAD_TOO_LARGE, "long bodies are streamed");
}

// [D3] [D6] [T7]
#[tokio::test]
async fn a_client_of_a_follower_proves_submits_and_streams() {
    let fleet = Fleet::start().await;
    let follower = Follower::of(leader(1, &fleet.base)).await;
    // The client demands the proof that this server's store knows its token.
    let client = follower.client(&fleet.admin_token);
    let mut events = client.events("/events/stream", None).await.unwrap();

    let request = SubmitRequest { body_md: MANIFEST.to_owned(), ..SubmitRequest::default() };
    let submitted: SubmitResponse = client.post("/jobs", &request).await.unwrap();

    let id = submitted.job.id.to_string();
    let seen = async {
        while let Some(event) = events.next().await.unwrap() {
            if event.data.contains(&id) {
                return;
            }
        }
        panic!("the stream ended");
    };
    tokio::time::timeout(PATIENCE, seen).await.expect("the event of the job");
}

// [D3]
#[tokio::test]
async fn a_change_of_the_leader_cuts_forwarded_streams() {
    let fleet = Fleet::start().await;
    let follower = Follower::of(leader(1, &fleet.base)).await;
    let client = follower.client(&fleet.admin_token);
    let mut events = client.events("/events/stream", None).await.unwrap();

    follower.leader.send_replace(leader(2, &fleet.base));

    let ended = async { while let Ok(Some(_)) = events.next().await {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the stream is cut");
    assert!(client.get::<serde_json::Value>("/jobs").await.is_ok(), "requests go to the next leader");
}

// [D3]
#[tokio::test]
async fn a_request_waits_for_a_leader_and_is_never_forwarded_twice() {
    let fleet = Fleet::start().await;
    let follower = Follower::of(None).await;
    let bearer = format!("Bearer {}", fleet.admin_token);
    let asking = || Asking::get("/api/fleet/jobs").header("authorization", &bearer);
    assert_eq!(ask(follower.address, Asking::get("/readyz")).await.code(), "not_leader");

    let (answer, ()) = tokio::join!(ask(follower.address, asking()), async {
        follower.leader.send_replace(leader(1, &fleet.base));
    });
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(ask(follower.address, Asking::get("/readyz")).await.status, StatusCode::OK);
    let health = ask(follower.address, Asking::get("/healthz")).await.json();
    assert_eq!((&health["role"], &health["term"]), (&"follower".into(), &1.into()));

    // Two followers that take each other for the leader.
    let other = Follower::of(leader(1, &format!("http://{}", follower.address))).await;
    follower.leader.send_replace(leader(1, &format!("http://{}", other.address)));
    let circle = ask(follower.address, asking()).await;
    assert_eq!((circle.status, circle.code().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "not_leader"));
    follower.shutdown.cancel();
}

// [D3] [attack: a page points its own name at the server]
#[tokio::test]
async fn a_follower_checks_the_host_that_the_leader_does_not_know() {
    let fleet = Fleet::start().await;
    let follower = Follower::of(leader(1, &fleet.base)).await;

    let foreign = ask(follower.address, Asking::get("/api/fleet/jobs").header("host", "evil.example")).await;

    assert_eq!((foreign.status, foreign.code().as_str()), (StatusCode::FORBIDDEN, "foreign_host"));
    let challenge = r#"{"nonce":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","token":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","address":"https://evil.example"}"#;
    let asking = Asking::new(http::Method::POST, "/api/fleet/identity").header("content-type", "application/json");
    let relayed = ask(follower.address, asking.body(challenge)).await;
    assert_eq!(relayed.code(), "foreign_host", "it proves nothing for another address");
}

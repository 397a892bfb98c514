//! A token is sent only to the coordinator that issued it, and TLS errors name the remedy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use client::{Client, ClientError, Endpoint, Trust};
use http::StatusCode;
use protocol::JobList;
use serde_json::json;
use server::{Options, Tls};
use tempfile::TempDir;

use crate::fleet::Fleet;
use crate::raw::{Asking, ask};

/// A process that listens on a coordinator's address, answers everything with `answer`, and records what it receives.
struct Impostor {
    base: String,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Impostor {
    fn at(address: SocketAddr, answer: &'static str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&heard);
        std::thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let into = Arc::clone(&into);
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(count @ 1..) = connection.read(&mut buffer) {
                        into.lock().unwrap().extend_from_slice(&buffer[..count]);
                        if into.lock().unwrap().ends_with(b"}") {
                            let _ = connection.write_all(answer.as_bytes());
                        }
                    }
                });
            }
        });
        Self { base, heard }
    }

    fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap()).into_owned()
    }
}

const ANYWHERE: &str = "127.0.0.1:0";
const PAGE: &str = "HTTP/1.1 404 Not Found\r\ncontent-length: 6\r\n\r\n<html>";
const GUESS: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 55\r\n\r\n{\"proof\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}";

fn endpoint(base: &str, token: &str, trust: Trust) -> Endpoint {
    Endpoint { base: base.to_owned(), token: token.to_owned(), product: None, trust }
}

#[tokio::test]
async fn a_process_that_proves_nothing_does_not_get_the_token() {
    for answer in [PAGE, GUESS] {
        let impostor = Impostor::at(ANYWHERE.parse().unwrap(), answer);
        let client = Client::new(endpoint(&impostor.base, "giga_adm_secret", Trust::Public)).unwrap();

        let asked: Result<JobList, ClientError> = client.get("/jobs").await;

        assert!(matches!(asked, Err(ClientError::Unproven { .. })), "{:?}", asked.err());
        let heard = impostor.heard();
        assert!(heard.contains("/identity") && !heard.contains("giga_adm_secret"), "{heard}");
    }
}

#[tokio::test]
async fn a_join_token_is_not_shown_to_a_process_that_proves_nothing() {
    let impostor = Impostor::at(ANYWHERE.parse().unwrap(), GUESS);
    let client = Client::enrolling(endpoint(&impostor.base, "", Trust::Public), "giga_join_secret").unwrap();

    let body = json!({ "joinToken": "giga_join_secret", "factoryId": "mac" });
    let asked: Result<serde_json::Value, ClientError> = client.post("/factories/enroll", &body).await;

    assert!(matches!(asked, Err(ClientError::Unproven { .. })), "{:?}", asked.err());
    assert!(!impostor.heard().contains("giga_join_secret"));
}

#[tokio::test]
async fn a_process_that_takes_the_address_over_does_not_get_the_token() {
    let mut fleet = Fleet::start().await;
    let before: Result<JobList, ClientError> = fleet.admin.get("/jobs").await;
    fleet.shutdown.cancel();
    while fleet.serving.join_next().await.is_some() {}

    let impostor = Impostor::at(fleet.address, GUESS);
    let after: Result<JobList, ClientError> = fleet.admin.get("/jobs").await;

    assert!(before.is_ok());
    assert!(matches!(after, Err(ClientError::Unproven { .. })), "{:?}", after.err());
    assert!(!impostor.heard().contains(&fleet.admin_token));
}

#[tokio::test]
async fn another_coordinator_reports_an_unknown_token() {
    let (ours, other) = (Fleet::start().await, Fleet::start().await);

    let asked: Result<JobList, ClientError> = other.client(&ours.admin_token).get("/jobs").await;

    let error = asked.unwrap_err();
    assert_eq!(error.code(), Some("unauthenticated"));
    assert!(error.to_string().contains("does not know this token"), "{error}");
}

#[tokio::test]
async fn every_coordinator_of_a_store_proves_the_same_identity() {
    let fleet = Fleet::start().await;
    let next = fleet.restarted().await;

    let asked: Result<JobList, ClientError> = next.client(&fleet.admin_token).get("/jobs").await;

    assert!(asked.is_ok());
}

#[tokio::test]
async fn nothing_is_proven_for_an_address_of_another_machine() {
    let fleet = Fleet::start().await;
    let digest = protocol::TokenDigest::of(&fleet.admin_token);
    let challenge =
        |address: &str| json!({ "nonce": "0123456789abcdef", "token": digest.lookup(), "address": address });
    let path = "/api/fleet/identity";

    let own = ask(fleet.address, Asking::post(path).json(&challenge(&fleet.base))).await;
    let foreign = ask(fleet.address, Asking::post(path).json(&challenge("http://evil.example:7878"))).await;

    assert_eq!(own.status, StatusCode::OK);
    assert_eq!((foreign.status, foreign.code().as_str()), (StatusCode::FORBIDDEN, "foreign_host"));
}

struct Certified {
    fleet: Fleet,
    certificate: Vec<u8>,
    _files: TempDir,
}

async fn certified(name: &str) -> Certified {
    let files = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let tls = Tls { certificate: files.path().join("cert.pem"), key: files.path().join("key.pem") };
    std::fs::write(&tls.certificate, made.cert.pem()).unwrap();
    std::fs::write(&tls.key, made.signing_key.serialize_pem()).unwrap();
    let fleet = Fleet::with(Options { tls: Some(tls), ..Options::default() }).await;
    Certified { fleet, certificate: made.cert.der().to_vec(), _files: files }
}

#[tokio::test]
async fn a_pinned_certificate_is_accepted_whatever_its_name() {
    let here = certified("fleet.example").await;
    let token = &here.fleet.admin_token;
    let jobs = async |trust| {
        let client = Client::new(endpoint(&here.fleet.base, token, trust)).unwrap();
        client.get::<JobList>("/jobs").await
    };

    let pinned = jobs(Trust::Pinned(protocol::fingerprint(&here.certificate))).await;
    let other = jobs(Trust::Pinned([7; 32])).await;

    assert!(pinned.is_ok(), "{:?}", pinned.err());
    let Err(ClientError::Tls { why, remedy, .. }) = other else { panic!("{other:?}") };
    assert!(why.contains("does not match the pinned fingerprint"), "{why}");
    assert!(remedy.contains("client.ca"), "{remedy}");
}

#[tokio::test]
async fn tls_errors_name_the_remedy() {
    let (here, plain) = (certified("localhost").await, Fleet::start().await);
    let token = &here.fleet.admin_token;
    let jobs = async |base: String| {
        let client = Client::new(endpoint(&base, token, Trust::Public)).unwrap();
        client.get::<JobList>("/jobs").await.unwrap_err()
    };
    let port = here.fleet.address.port();

    let http_to_https = jobs(format!("http://127.0.0.1:{port}")).await;
    let https_to_http = jobs(plain.base.replace("http://", "https://")).await;
    let unknown_authority = jobs(format!("https://localhost:{port}")).await;

    assert_eq!(http_to_https.code(), Some("tls_required"), "{http_to_https}");
    assert!(http_to_https.to_string().contains("https://"), "{http_to_https}");
    assert!(https_to_http.to_string().contains("plain http"), "{https_to_http}");
    let ClientError::Tls { why, remedy, .. } = unknown_authority else { panic!("{unknown_authority:?}") };
    assert!(why.contains("unknown authority") && remedy.contains("`client.ca`"), "{why}: {remedy}");
}

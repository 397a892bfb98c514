//! HTTP/2, where TLS agrees on it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use protocol::SubmitRequest;
use rustls::pki_types::{CertificateDer, ServerName};
use server::{Limits, Options, Tls};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::fleet::{Fleet, soon};

/// A fleet with a certificate, which is in the first value.
async fn fleet(limits: Limits) -> (CertificateDer<'static>, Fleet) {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls = Tls { certificate: dir.path().join("cert.pem"), key: dir.path().join("key.pem") };
    std::fs::write(&tls.certificate, made.cert.pem()).unwrap();
    std::fs::write(&tls.key, made.signing_key.serialize_pem()).unwrap();
    (made.cert.der().clone(), Fleet::with(Options { tls: Some(tls), limits, ..Options::default() }).await)
}

async fn connect(fleet: &Fleet, certificate: &CertificateDer<'static>, offered: &[&[u8]]) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(fleet.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

struct Http2 {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinSet<()>,
}

impl Http2 {
    async fn open(fleet: &Fleet, certificate: &CertificateDer<'static>) -> Self {
        let stream = connect(fleet, certificate, &[b"h2", b"http/1.1"]).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            let _ = connection.await;
        });
        Self { sender, driver }
    }

    async fn get(&mut self, fleet: &Fleet, path: &str) -> http::Response<hyper::body::Incoming> {
        let uri = format!("https://localhost:{}{path}", fleet.address.port());
        let bearer = format!("Bearer {}", fleet.admin_token);
        let request = Request::builder().uri(uri).version(Version::HTTP_2).header("authorization", bearer);
        soon(self.sender.send_request(request.body(Full::new(Bytes::new())).unwrap())).await.unwrap()
    }
}

/// Browsers open six connections to a host: without HTTP/2 the seventh tab with a stream would never load.
// [U1]
#[tokio::test]
async fn a_browser_has_many_streams_on_one_http2_connection() {
    let (certificate, fleet) = fleet(Limits { connections_max: 1, ..Limits::default() }).await;
    let mut browser = Http2::open(&fleet, &certificate).await;

    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = browser.get(&fleet, "/api/fleet/events/stream").await.into_body();
        let first = soon(stream.frame()).await.unwrap().unwrap().into_data().unwrap();
        assert!(String::from_utf8_lossy(&first).contains("event: hello"), "{first:?}");
        streams.push(stream);
    }
    let answer = browser.get(&fleet, "/api/fleet/jobs").await;

    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_2));
}

#[tokio::test]
async fn a_client_without_http2_is_served_too() {
    let (certificate, fleet) = fleet(Limits::default()).await;

    for offered in [&[&b"http/1.1"[..]][..], &[]] {
        let stream = connect(&fleet, &certificate, offered).await;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        let request = Request::builder().uri("/healthz").header("host", "localhost");
        let answer = soon(sender.send_request(request.body(Full::new(Bytes::new())).unwrap())).await.unwrap();
        assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_11));
    }
}

// [attack: slow or greedy clients]
#[tokio::test]
async fn an_idle_http2_connection_is_closed() {
    let limits = Limits { header_time_max: Duration::from_millis(300), ..Limits::default() };
    let (certificate, fleet) = fleet(limits).await;

    // One that says nothing, and one that has asked once.
    let mut silent = connect(&fleet, &certificate, &[b"h2"]).await;
    let mut browser = Http2::open(&fleet, &certificate).await;
    browser.get(&fleet, "/healthz").await.into_body().collect().await.unwrap();

    let mut rest = Vec::new();
    let _ = soon(silent.read_to_end(&mut rest)).await;
    soon(browser.driver.join_next()).await;
}

// [attack: slow or greedy clients]
#[tokio::test]
async fn an_http2_stream_keeps_its_connection() {
    let limits = Limits { header_time_max: Duration::from_millis(200), ..Limits::default() };
    let (certificate, fleet) = fleet(limits).await;
    let mut browser = Http2::open(&fleet, &certificate).await;
    let mut stream = browser.get(&fleet, "/api/fleet/events/stream").await.into_body();
    soon(stream.frame()).await.unwrap().unwrap();

    let early = tokio::time::timeout(Duration::from_secs(1), stream.frame()).await;

    assert!(early.is_err(), "it stays open, and silent: {early:?}");
    let request = SubmitRequest { body_md: "# One\n".to_owned(), ..SubmitRequest::default() };
    fleet.coordinator.submit(&fleet.coordinator.authenticate(&fleet.admin_token).unwrap(), request).await.unwrap();
    assert!(soon(stream.frame()).await.unwrap().is_ok());
}

// [attack: slow or greedy clients]
#[tokio::test]
async fn an_idle_http2_connection_is_closed_for_a_new_one() {
    let (certificate, fleet) = fleet(Limits { connections_max: 1, ..Limits::default() }).await;
    let mut idle = Http2::open(&fleet, &certificate).await;
    idle.get(&fleet, "/healthz").await.into_body().collect().await.unwrap();

    let mut new = soon(Http2::open(&fleet, &certificate)).await;

    assert_eq!(new.get(&fleet, "/healthz").await.status(), StatusCode::OK);
    soon(idle.driver.join_next()).await;
}

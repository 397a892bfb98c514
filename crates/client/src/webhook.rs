//! Sends outgoing webhooks: signed, to public addresses only, without following redirects [attack: SSRF].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use domain::{Clock, WebhookDelivery, WebhookError, WebhookReceiver};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::Full;
use sha2::Sha256;

use crate::http::{HttpTransport, webhook_network};
use crate::public_resolver::AddressPolicy;

/// Timeout of one delivery.
const DELIVERY_TIME_MAX: Duration = Duration::from_secs(10);

/// The longest pause that a receiver can ask for.
const WAIT_MAX: Duration = Duration::from_hours(1);

/// Where webhooks go. `Debug` shows neither the path of the address nor the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookTarget {
    /// The address of the receiver. Its path may be a secret.
    pub url: String,
    /// What deliveries are signed with; absent: they are not signed.
    pub secret: Option<String>,
    /// Whether loopback addresses are allowed, also with http.
    pub allow_loopback: bool,
}

/// Sends webhooks to one address.
pub struct WebhookSender {
    url: Uri,
    secret: Option<String>,
    network: Box<dyn HttpTransport>,
    clock: Arc<dyn Clock>,
}

impl WebhookTarget {
    /// Checks the address as far as its text shows. The error does not contain the address.
    pub fn check(&self) -> Result<(), String> {
        self.parse().map(|_| ())
    }

    fn parse(&self) -> Result<Uri, String> {
        let url: Uri = self.url.trim().parse().map_err(|_| "the address is not a valid URL".to_owned())?;
        let Some(authority) = url.authority() else { return Err("the address has no host".to_owned()) };
        if authority.as_str().contains('@') {
            return Err("the address has a user name: put credentials into the path or a query".to_owned());
        }
        self.policy().check(&url).map_err(|_| match self.allow_loopback {
            true => "the address is neither https to a public host nor a loopback address".to_owned(),
            false => "the address is not https to a public host".to_owned(),
        })?;
        Ok(url)
    }

    fn policy(&self) -> AddressPolicy {
        if self.allow_loopback { AddressPolicy::PublicOrLoopback } else { AddressPolicy::PublicOnly }
    }
}

impl fmt::Debug for WebhookTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookTarget(…)")
    }
}

impl WebhookSender {
    /// Checks the address. Nothing is sent yet.
    pub fn open(target: WebhookTarget, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let url = target.parse()?;
        let network = Box::new(webhook_network(target.policy())?);
        Ok(Self { url, secret: target.secret, network, clock })
    }

    fn request(&self, delivery: &WebhookDelivery) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::post(self.url.clone())
            .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(header::USER_AGENT, HeaderValue::from_static("gigafactory"))
            .header("x-giga-delivery", &delivery.id)
            .header("x-giga-event", &delivery.event);
        if let Some(secret) = &self.secret {
            let timestamp = (self.clock.now().as_millis() / 1_000).to_string();
            let signature = signature(secret, &timestamp, &delivery.body);
            request = request.header("x-giga-timestamp", timestamp).header("x-giga-signature", signature);
        }
        request.body(Full::new(Bytes::from(delivery.body.clone())))
    }
}

#[async_trait]
impl WebhookReceiver for WebhookSender {
    async fn deliver(&self, delivery: &WebhookDelivery) -> Result<(), WebhookError> {
        let request = self.request(delivery).map_err(|error| WebhookError::Rejected(error.to_string()))?;
        let exchange = self.network.exchange(request);
        let answer = tokio::time::timeout(DELIVERY_TIME_MAX, exchange).await;
        match answer {
            Ok(Ok(answer)) => outcome(answer.status(), answer.headers()),
            Ok(Err(error)) => Err(retryable(error.to_string())),
            Err(_) => Err(retryable(format!("no answer within {} seconds", DELIVERY_TIME_MAX.as_secs()))),
        }
    }

    fn address(&self) -> String {
        let authority = self.url.authority().map_or("", http::uri::Authority::as_str);
        format!("{}://{authority}", self.url.scheme_str().unwrap_or("https"))
    }
}

/// `sha256=` and the HMAC of `<timestamp>.<body>`: what the coordinator expects of webhooks itself.
fn signature(secret: &str, timestamp: &str, body: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    for part in [timestamp, ".", body] {
        mac.update(part.as_bytes());
    }
    let digest: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digest}")
}

/// What an answer means. The body is not read: it may repeat the address.
fn outcome(status: StatusCode, headers: &HeaderMap) -> Result<(), WebhookError> {
    let code = status.as_u16();
    match code {
        200..=299 => Ok(()),
        300..=399 => Err(retryable(format!(
            "the receiver answered {code}: redirects are not followed, configure the address that it redirects to"
        ))),
        400 | 413 | 415 | 422 => Err(WebhookError::Rejected(format!("the receiver rejected the message ({code})"))),
        _ => {
            let wait = headers.get(header::RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
            let wait = wait.map(|seconds| Duration::from_secs(seconds).min(WAIT_MAX));
            Err(WebhookError::Retryable { message: format!("the receiver answered {code}"), wait })
        }
    }
}

fn retryable(message: String) -> WebhookError {
    WebhookError::Retryable { message, wait: None }
}

#[cfg(test)]
mod tests {
    use clock::SystemClock;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use tokio::task::JoinSet;

    use super::*;

    const SECRET: &str = "canary-of-the-webhook";

    fn target(url: &str, allow_loopback: bool) -> WebhookTarget {
        WebhookTarget { url: url.to_owned(), secret: Some(SECRET.to_owned()), allow_loopback }
    }

    fn delivery() -> WebhookDelivery {
        WebhookDelivery { id: "1".to_owned(), event: "test".to_owned(), body: "{}".to_owned() }
    }

    /// Sends one delivery to an address that need not be valid.
    async fn send(target: WebhookTarget) -> Result<(), String> {
        let sender = WebhookSender::open(target, Arc::new(SystemClock::new()))?;
        sender.deliver(&delivery()).await.map_err(|error| error.to_string())
    }

    /// Answers every connection with the same text, and counts the connections.
    async fn answering(answer: &'static str) -> (u16, UnboundedReceiver<String>, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, requests) = unbounded_channel();
        let mut server = JoinSet::new();
        server.spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut request = vec![0; 4_096];
                let len = connection.read(&mut request).await.unwrap_or(0);
                let _ = sender.send(String::from_utf8_lossy(&request[..len]).into_owned());
                let _ = connection.write_all(answer.as_bytes()).await;
            }
        });
        (port, requests, server)
    }

    /// Ways to write an address of this machine or of its network.
    const INSIDE: [&str; 62] = [
        "127.0.0.1",
        "127.0.0.2",
        "127.255.255.254",
        "127.1",
        "127.0.1",
        "2130706433",
        "017700000001",
        "0177.0.0.1",
        "0177.0.0.01",
        "0177.1",
        "0x7f000001",
        "0x7F.0.0.1",
        "0x7f.1",
        "0x7f.0x0.0x0.0x1",
        "127.0x1",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "127。0。0。1",
        "①②⑦.⓪.⓪.①",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "localhost.localdomain",
        "ip6-localhost",
        "a.localhost",
        "0",
        "0.0.0.0",
        "0x0",
        "00000000000",
        "10.0.0.1",
        "10.1",
        "167772161",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "192.168.1",
        "3232235521",
        "0xc0a80001",
        "100.64.0.1",
        "169.254.169.254",
        "169.254.43518",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[0000::0001]",
        "[::]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::169.254.169.254]",
        "[2002:7f00:1::]",
        "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
        "[fe80::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
    ];

    // [T6] [attack: SSRF through artifact, tracker, webhook URLs]
    #[tokio::test]
    async fn no_spelling_of_a_local_address_is_connected_to() {
        let (port, mut requests, _server) = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;

        for host in INSIDE {
            for url in [
                format!("https://{host}:{port}/x"),
                format!("http://{host}:{port}/x"),
                format!("https://public.example@{host}:{port}/x"),
            ] {
                let sent = tokio::time::timeout(Duration::from_secs(8), send(target(&url, false))).await;
                let error = sent.expect("it is refused at once").expect_err(&url);
                assert!(!error.contains(SECRET), "{error}");
            }
        }

        assert!(requests.try_recv().is_err());
    }

    // [T6] [attack: SSRF through artifact, tracker, webhook URLs]
    #[tokio::test]
    async fn a_loopback_address_is_used_where_it_is_allowed_and_no_other() {
        let (port, mut requests, _server) = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;

        let allowed = send(target(&format!("http://127.0.0.1:{port}/hook"), true)).await;
        let request = requests.recv().await.unwrap().to_lowercase();

        assert_eq!(allowed, Ok(()));
        assert!(request.starts_with("post /hook http/1.1") && request.contains("x-giga-signature: sha256="));
        for url in ["http://10.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/", "http://hooks.example/"] {
            assert!(target(url, true).check().is_err(), "{url}");
        }
    }

    // [T6] [attack: SSRF through artifact, tracker, webhook URLs]
    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let (inner, mut reached, _server) = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let redirect =
            format!("HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.1:{inner}/\r\ncontent-length: 0\r\n\r\n");
        let (port, _requests, _server) = answering(Box::leak(redirect.into_boxed_str())).await;

        let error = send(target(&format!("http://127.0.0.1:{port}/hook"), true)).await.unwrap_err();

        assert!(error.contains("redirects are not followed"), "{error}");
        assert!(reached.try_recv().is_err());
    }

    // [T6] [attack: secrets in logs, events, artifacts]
    #[tokio::test]
    async fn an_error_shows_neither_secret_nor_path() {
        let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 20\r\n\r\nno /T0/B0/canary-path";
        let (port, _requests, _server) = answering(answer).await;
        let to = target(&format!("http://127.0.0.1:{port}/T0/B0/canary-path"), true);
        let sender = WebhookSender::open(to.clone(), Arc::new(SystemClock::new())).unwrap();

        let error = sender.deliver(&delivery()).await.unwrap_err();

        let shown = format!("{error} {error:?} {to:?} {}", sender.address());
        assert!(shown.contains("answered 404") && !shown.contains("canary"), "{shown}");
    }

    // [T6]
    #[test]
    fn answers_are_retried_unless_the_message_is_rejected() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("99999"));
        let of = |code: u16| outcome(StatusCode::from_u16(code).unwrap(), &headers);

        assert_eq!(of(204), Ok(()));
        assert!(matches!(of(400), Err(WebhookError::Rejected(_))));
        for code in [301, 401, 404, 408, 410, 500, 503] {
            assert!(matches!(of(code), Err(WebhookError::Retryable { .. })), "{code}");
        }
        assert!(matches!(of(429), Err(WebhookError::Retryable { wait: Some(WAIT_MAX), .. })));
    }

    // [T6]
    #[test]
    fn a_delivery_is_signed_with_its_time() {
        let signed = signature(SECRET, "1700000000", "{}");

        // printf '1700000000.{}' | openssl dgst -sha256 -hmac canary-of-the-webhook
        assert_eq!(signed, "sha256=2edc5770281770efc4287e0656687557dbc77615d30ec97b33ece4d5ea170e3c");
        assert_ne!(signed, signature(SECRET, "1700000001", "{}"));
        assert_ne!(signed, signature(SECRET, "1700000000", "{ }"));
    }
}

//! Artifacts over HTTP: attached by the holder, downloaded as attachments, within limits [J8].

use domain::{Epoch, JobId, Sha256};
use http::{Method, StatusCode};
use protocol::{ArtifactList, ArtifactView, JobDetail};
use sha2::Digest;

use crate::fleet::{Fleet, Worker};
use crate::raw::{Answer, Asking, ask};

fn digest(bytes: &[u8]) -> String {
    Sha256::of(sha2::Sha256::digest(bytes).into()).to_string()
}

async fn building(fleet: &Fleet) -> (Worker, JobId, Epoch) {
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit("# Build\n").await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();
    (factory, id, epoch)
}

async fn attach(fleet: &Fleet, token: &str, job: JobId, query: &str, bytes: &[u8]) -> Answer {
    let path = format!("/api/fleet/jobs/{job}/artifacts?{query}");
    ask(fleet.address, Asking::post(&path).token(token).body(bytes.to_vec())).await
}

fn query(epoch: Epoch, name: &str, bytes: &[u8]) -> String {
    format!("leaseEpoch={epoch}&name={name}&sha256={}&contentType=text/html", digest(bytes))
}

// [J8] [§10] [attack: XSS from Markdown, logs, names] [attack: artifact path traversal, bombs]
#[tokio::test]
async fn an_artifact_is_served_as_an_attachment_that_no_browser_shows() {
    artifact_story(Fleet::start().await).await;
}

pub(crate) async fn artifact_story(fleet: Fleet) {
    let (factory, job, epoch) = building(&fleet).await;
    let page = b"<script>alert(1)</script>";

    let made = attach(&fleet, &factory.token, job, &query(epoch, "out%2Fr%22.html", page), page).await;
    let again = attach(&fleet, &factory.token, job, &query(epoch, "out%2Fr%22.html", page), page).await;
    let view: ArtifactView = serde_json::from_slice(&made.body).unwrap();
    let path = made.headers["location"].to_str().unwrap().to_owned();
    let served = ask(fleet.address, Asking::get(&path).token(&fleet.admin_token)).await;

    assert_eq!((made.status, again.status), (StatusCode::CREATED, StatusCode::OK));
    assert_eq!(made.body, again.body);
    assert_eq!((view.name.as_str(), view.content_type.as_str(), view.bytes), ("out/r\".html", "text/html", 25));
    assert_eq!((served.status, served.body.as_ref()), (StatusCode::OK, &page[..]));
    let header = |name: &str| served.headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "application/octet-stream");
    assert_eq!(header("content-disposition"), "attachment; filename=\"r_.html\"; filename*=UTF-8''r%22.html");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert!(header("content-security-policy").starts_with("sandbox; default-src 'none'"));
    assert_eq!(header("etag"), format!("\"{}\"", view.sha256));
    let detail: JobDetail = fleet.job(job).await;
    assert_eq!(detail.job.artifacts, 1);
    let events: serde_json::Value = fleet.admin.get(&format!("/jobs/{job}/events")).await.unwrap();
    assert!(events.to_string().contains("artifact out/r\\\".html attached (25 B)"), "{events}");

    let removed: ArtifactView =
        fleet.admin.call::<(), _>(Method::DELETE, &format!("/artifacts/{}", view.id), None).await.unwrap();
    let gone = ask(fleet.address, Asking::get(&path).token(&fleet.admin_token)).await;
    assert_eq!((removed, gone.code()), (view, "no_such_artifact".to_owned()));
}

// [J8] [attack: artifact path traversal, bombs]
#[tokio::test]
async fn a_name_is_never_a_path() {
    let fleet = Fleet::start().await;
    let (factory, job, epoch) = building(&fleet).await;
    let hostile = [
        "..%2F..%2Fetc%2Fpasswd",
        "%2Fetc%2Fpasswd",
        "a%2F..%2Fb",
        "..",
        ".",
        "a%2F%2Fb",
        "a%2F",
        "..%5C..%5Cx",
        "C%3A%5Cx",
        "a%00b",
        "a%0Ab",
        "a%0D%0AX-Y%3A%20z",
        "%E2%80%AEgnp.exe",
        "%1B%5B2J",
        "",
        "%EF%BB%BFa",
    ];

    for name in hostile {
        let refused = attach(&fleet, &factory.token, job, &query(epoch, name, b"x"), b"x").await;
        assert!(refused.status.is_client_error(), "{name}: {refused:?}");
    }
    for id in ["..%2F..%2Fetc%2Fpasswd", "%2e%2e", &format!("{job}-0"), &format!("{job}"), &format!("{job}-1%2F..")] {
        let path = format!("/api/fleet/artifacts/{id}");
        let refused = ask(fleet.address, Asking::get(&path).token(&fleet.admin_token)).await;
        assert!(refused.status.is_client_error(), "{id}: {refused:?}");
    }

    assert_eq!(fleet.job(job).await.job.artifacts, 0);
    assert!(!fleet.files().contains(&"artifacts".to_owned()), "nothing was written: {:?}", fleet.files());
    // Odd, but only a name.
    let odd = attach(&fleet, &factory.token, job, &query(epoch, "...%252e%252e", b"x"), b"x").await;
    assert_eq!(odd.status, StatusCode::CREATED, "{odd:?}");
}

// [J8] [attack: artifact path traversal, bombs]
#[tokio::test]
async fn a_body_of_another_digest_or_too_many_bytes_is_not_attached() {
    let fleet = Fleet::start().await;
    let (factory, job, epoch) = building(&fleet).await;

    let other = attach(&fleet, &factory.token, job, &query(epoch, "a", b"announced"), b"sent").await;
    let unknown = attach(&fleet, &factory.token, job, "leaseEpoch=1&name=a&sha256=xyz", b"sent").await;
    let stale = attach(&fleet, &factory.token, job, &query(Epoch(epoch.0 + 1), "a", b"x"), b"x").await;
    let person = attach(&fleet, &fleet.admin_token, job, &query(epoch, "a", b"x"), b"x").await;
    let length = (1_u64 << 40).to_string();
    let path = format!("/api/fleet/jobs/{job}/artifacts?{}", query(epoch, "bomb", b"x"));
    let bomb = announce(&fleet, &path, &factory.token, &length).await;

    let codes = [other.code(), unknown.code(), stale.code(), person.code()];
    assert_eq!(codes, ["invalid", "invalid", "fenced", "forbidden"]);
    assert!(bomb.contains("413") && bomb.contains("artifact_limit"), "{bomb}");
    let listed: ArtifactList = fleet.admin.get(&format!("/jobs/{job}/artifacts")).await.unwrap();
    assert_eq!((listed.items.len(), listed.bytes), (0, 0));
}

/// The answer to a request that only announces its body.
async fn announce(fleet: &Fleet, path: &str, token: &str, length: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(fleet.address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n",
        fleet.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4_096];
    let len = crate::fleet::soon(stream.read(&mut answer)).await.unwrap();
    let mut text = String::from_utf8_lossy(&answer[..len]).into_owned();
    if !text.contains("artifact_limit") {
        let len = crate::fleet::soon(stream.read(&mut answer)).await.unwrap();
        text.push_str(&String::from_utf8_lossy(&answer[..len]));
    }
    text
}

// [J8] [attack: artifact path traversal, bombs]
#[tokio::test]
async fn a_bomb_without_a_length_stops_at_the_limit_with_flat_memory() {
    use tokio::io::AsyncWriteExt;
    const CHUNK_LEN: usize = 1 << 20;
    const LIMIT_MIB: usize = 100;
    let fleet = Fleet::start().await;
    let (factory, job, epoch) = building(&fleet).await;
    let (path, chunk) = (query(epoch, "bomb", b"never"), vec![b'0'; CHUNK_LEN]);
    let head = format!(
        "POST /api/fleet/jobs/{job}/artifacts?{path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
         transfer-encoding: chunked\r\n\r\n",
        fleet.address, factory.token
    );
    let before = peak_kib();

    let mut stream = tokio::net::TcpStream::connect(fleet.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut sent = 0;
    while sent < 4 * LIMIT_MIB {
        let piece = [format!("{CHUNK_LEN:x}\r\n").as_bytes(), &chunk, b"\r\n"].concat();
        match tokio::time::timeout(std::time::Duration::from_secs(10), stream.write_all(&piece)).await {
            Ok(Ok(())) => sent += 1,
            Ok(Err(_)) | Err(_) => break,
        }
    }

    assert!((LIMIT_MIB..2 * LIMIT_MIB).contains(&sent), "the server took {sent} MiB");
    let grown = peak_kib() - before;
    assert!(grown < 48 * 1024, "the memory grew by {grown} KiB");
    assert_eq!(fleet.job(job).await.job.artifacts, 0);
}

/// The most memory that this process has used. Each test is a process of its own.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or(0, |peak| peak.trim().trim_end_matches(" kB").parse().unwrap())
}

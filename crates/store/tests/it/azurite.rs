//! Artifacts in Azure Blob Storage, against its emulator [J8].

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::{BlobAttributes, BlobKey, BlobStore, Epoch, JobId, LogStore, Sha256, UploadId};
use hmac::{Hmac, KeyInit, Mac};
use store::{BlobPlace, ObjectBlobs, ObjectLogs};
use testkit::requirement::Requirement;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The account of the emulator, which everyone knows.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A date that the emulator accepts: it runs with `--skipApiVersionCheck`, and checks no age.
const API: &str = "2023-11-03";

/// An emulator with a container `artifacts`.
struct Azurite {
    process: Child,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Drop for Azurite {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Azurite {
    /// A running emulator; `None` where the machine has none.
    async fn start() -> Option<Self> {
        let program = std::env::var_os("GIGA_TEST_AZURITE").filter(|path| path != "skip").map(PathBuf::from);
        if !Requirement::Azurite.is_met(program.is_some(), "GIGA_TEST_AZURITE is not set: see scripts/with-azurite") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut process = Command::new(program?)
            .args(["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--blobHost", "127.0.0.1", "--blobPort"])
            .arg(address.port().to_string())
            .arg("--location")
            .arg(dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Its first line says that it listens.
        let mut output = process.stdout.take().unwrap();
        let mut said = String::new();
        while !said.contains("listens on") {
            let mut bytes = [0; 256];
            let len = output.read(&mut bytes).unwrap();
            assert!(len > 0, "the emulator ended: {said}");
            said.push_str(&String::from_utf8_lossy(&bytes[..len]));
        }
        let azurite = Self { process, address, _dir: dir };
        azurite.create_container().await;
        Some(azurite)
    }

    async fn create_container(&self) {
        let date = "Thu, 01 Jan 2026 00:00:00 GMT";
        let signed = format!(
            "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:{API}\n/{ACCOUNT}/{ACCOUNT}/artifacts\nrestype:container"
        );
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&STANDARD.decode(KEY).unwrap()).unwrap();
        mac.update(signed.as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        let head = format!(
            "PUT /{ACCOUNT}/artifacts?restype=container HTTP/1.1\r\nhost: {}\r\nx-ms-date: {date}\r\nx-ms-version: {API}\r\n\
             authorization: SharedKey {ACCOUNT}:{signature}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            self.address
        );
        let answer = self.exchange(&head).await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }

    async fn exchange(&self, head: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn blobs(&self) -> ObjectBlobs {
        let Ok(BlobPlace::Bucket(bucket)) = "az://artifacts/giga/test".parse() else { panic!("it is a container") };
        let variables = [("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT), ("AZURE_STORAGE_ACCOUNT_KEY", KEY)];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let endpoint = format!("http://{}/{ACCOUNT}", self.address);
        ObjectBlobs::new(&bucket, Some(&endpoint), variables).unwrap()
    }
}

fn key(n: u8) -> BlobKey {
    let sha256 = Sha256::of([n; 32]);
    BlobKey { job: JobId::from_bytes([7; 16]), sha256, upload: UploadId::of([n; 8]) }
}

fn about(name: &str) -> BlobAttributes {
    BlobAttributes { name: name.parse().unwrap() }
}

async fn put(blobs: &ObjectBlobs, key: &BlobKey, name: &str, bytes: &[u8]) {
    let mut writer = blobs.create(key, &about(name)).await.unwrap();
    for chunk in bytes.chunks(1 << 20) {
        writer.write(chunk).await.unwrap();
    }
    writer.finish().await.unwrap();
}

async fn read(blobs: &ObjectBlobs, key: &BlobKey) -> Option<Vec<u8>> {
    let mut reader = blobs.open(key).await.unwrap()?;
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await.unwrap() {
        bytes.extend(piece);
    }
    assert_eq!(reader.bytes(), bytes.len() as u64);
    Some(bytes)
}

// [J8]
#[tokio::test]
async fn blobs_of_all_sizes_are_stored_listed_and_removed() {
    let Some(azurite) = Azurite::start().await else { return };
    let blobs = azurite.blobs();
    let large: Vec<u8> = (0..20_u32 << 20).map(|n| n.wrapping_mul(31).to_le_bytes()[1]).collect();

    put(&blobs, &key(1), "empty", b"").await;
    put(&blobs, &key(2), "small", b"hello").await;
    put(&blobs, &key(3), "large", &large).await;
    let mut unfinished = blobs.create(&key(4), &about("unfinished")).await.unwrap();
    unfinished.write(&large[..9 << 20]).await.unwrap();
    unfinished.abort().await;

    assert_eq!(read(&blobs, &key(1)).await.as_deref(), Some(&b""[..]));
    assert_eq!(read(&blobs, &key(2)).await.as_deref(), Some(&b"hello"[..]));
    assert!(read(&blobs, &key(3)).await.is_some_and(|bytes| bytes == large));
    assert_eq!(read(&blobs, &key(4)).await, None);
    let job = key(1).job;
    let listed: Vec<BlobKey> = blobs.list(job).await.unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(listed, [key(1), key(2), key(3)]);
    assert_eq!(blobs.list(JobId::from_bytes([8; 16])).await.unwrap(), []);
    blobs.remove(&key(2)).await.unwrap();
    blobs.remove(&key(2)).await.unwrap();
    assert_eq!(read(&blobs, &key(2)).await, None);
}

// [J8] [attack: XSS from Markdown, logs, names]
#[tokio::test]
async fn a_signed_url_downloads_an_attachment_without_a_credential() {
    let Some(azurite) = Azurite::start().await else { return };
    let blobs = azurite.blobs();
    put(&blobs, &key(1), "out/page.html", b"<script>alert(1)</script>").await;

    let url = blobs.signed_url(&key(1), Duration::from_mins(5)).await.unwrap().unwrap();
    let (_, path) = url.split_once(&azurite.address.to_string()).unwrap();
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", azurite.address);
    let served = azurite.exchange(&request(path)).await;
    let unsigned = azurite.exchange(&request(path.split('?').next().unwrap())).await;

    let head = served.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200") && served.ends_with("<script>alert(1)</script>"), "{served}");
    assert!(head.contains("content-disposition: attachment; filename=\"page.html\""), "{served}");
    assert!(head.contains("content-type: application/octet-stream"), "{served}");
    assert!(!unsigned.starts_with("HTTP/1.1 200"), "{unsigned}");
    assert!(!url.contains(KEY), "the key is not in the URL");
}

// [J8] [J9]
#[tokio::test]
async fn logs_and_evidence_are_stored_beside_the_artifacts() {
    let Some(azurite) = Azurite::start().await else { return };
    let (job, epoch) = (key(1).job, Epoch(1));
    put(&azurite.blobs(), &key(1), "an artifact", b"hello").await;
    let logs = ObjectLogs::in_bucket(azurite.blobs(), 1 << 20);
    let mut text = String::new();

    let empty = logs.append(job, Epoch(2), 0, b"").await.unwrap();
    for n in 0..150 {
        let line = format!("line {n}\n");
        logs.append(job, epoch, text.len() as u64, line.as_bytes()).await.unwrap();
        text.push_str(&line);
    }
    logs.keep_evidence(job, epoch, b"{\"n\":1}").await.unwrap();
    logs.keep_evidence(job, epoch, b"{\"n\":2}").await.unwrap();

    let other = ObjectLogs::in_bucket(azurite.blobs(), 1 << 20);
    let length = text.len() as u64;
    assert_eq!(empty, 0);
    assert_eq!(other.logs(job).await.unwrap(), [(epoch, length), (Epoch(2), 0)]);
    assert_eq!(other.read(job, epoch, 0, u32::MAX).await.unwrap(), text.as_bytes());
    assert_eq!(other.read(job, epoch, 3, 10).await.unwrap(), &text.as_bytes()[3..13]);
    assert_eq!(other.read(job, epoch, length, 10).await.unwrap(), b"");
    assert_eq!(other.evidence(job, epoch).await.unwrap().as_deref(), Some(&b"{\"n\":2}"[..]));
    assert_eq!(other.evidence(job, Epoch(2)).await.unwrap(), None);
    assert_eq!(azurite.blobs().list(job).await.unwrap().len(), 1, "logs are no artifacts");
}

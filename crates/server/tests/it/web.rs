//! The web UI: its files, their headers, and which paths are pages.

use std::path::Path;

use http::{Method, StatusCode};
use server::Options;
use tempfile::TempDir;

use crate::fleet::Fleet;
use crate::raw::{Answer, Asking, ask};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                      connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// A built UI: a page, and a script in all encodings.
fn dist() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| std::fs::write(dir.path().join(name), content).unwrap();
    std::fs::create_dir(dir.path().join("assets")).unwrap();
    write("index.html", "<!doctype html><title>giga</title>");
    write("favicon.svg", "<svg/>");
    write("assets/index-abc.js", "plain");
    write("assets/index-abc.js.br", "brotli");
    write("assets/index-abc.js.gz", "gzip");
    dir
}

async fn serving(dir: &Path) -> Fleet {
    Fleet::with(Options { web_dir: Some(dir.to_owned()), ..Options::default() }).await
}

fn browse(path: &str) -> Asking {
    Asking::get(path).header("accept", "text/html,application/xhtml+xml,*/*;q=0.8")
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

// [U1] [attack: XSS from Markdown, logs, names]
#[tokio::test]
async fn every_page_and_asset_has_the_security_headers() {
    let dir = dist();
    let fleet = serving(dir.path()).await;

    for path in ["/", "/jobs/0190f3a4", "/favicon.svg", "/assets/index-abc.js"] {
        let answer = ask(fleet.address, browse(path)).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        let headers = [
            ("content-security-policy", POLICY),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ];
        for (name, value) in headers {
            assert_eq!(answer.headers[name], value, "{path} {name}");
        }
    }
}

// [U1]
#[tokio::test]
async fn an_asset_is_sent_in_the_smallest_accepted_encoding() {
    let dir = dist();
    let fleet = serving(dir.path()).await;
    let get = |encodings: &str| Asking::get("/assets/index-abc.js").header("accept-encoding", encodings);

    let mut tags = Vec::new();
    for (encodings, content, named) in
        [("gzip, br", "brotli", Some("br")), ("gzip;q=0.5", "gzip", Some("gzip")), ("br;q=0", "plain", None)]
    {
        let answer = ask(fleet.address, get(encodings)).await;
        assert_eq!(text(&answer), content);
        let encoding = answer.headers.get("content-encoding").map(|value| value.to_str().unwrap());
        assert_eq!(encoding, named);
        assert_eq!(answer.headers["vary"], "accept-encoding");
        assert_eq!(answer.headers["cache-control"], "public, max-age=31536000, immutable");
        assert_eq!(answer.headers["content-type"], "text/javascript; charset=utf-8");
        tags.push(answer.headers["etag"].to_str().unwrap().to_owned());
    }

    let known = ask(fleet.address, get("br").header("if-none-match", &tags[0])).await;
    let other = ask(fleet.address, get("gzip").header("if-none-match", &tags[0])).await;
    assert_eq!((known.status, known.body.len()), (StatusCode::NOT_MODIFIED, 0));
    assert_eq!(known.headers["etag"], tags[0].as_str());
    assert_eq!(other.status, StatusCode::OK);
    assert!(tags.iter().all(|tag| tag.starts_with('"')), "strong: {tags:?}");
}

// [U1]
#[tokio::test]
async fn only_pages_fall_back_to_the_index() {
    let dir = dist();
    let fleet = serving(dir.path()).await;

    for path in ["/", "/jobs", "/jobs/0190f3a4?tab=log", "/sign-in"] {
        let page = ask(fleet.address, browse(path)).await;
        assert_eq!((page.status, text(&page).contains("<title>giga</title>")), (StatusCode::OK, true), "{path}");
        assert_eq!(page.headers["cache-control"], "no-cache", "{path}");
        assert_eq!(page.headers["vary"], "accept, accept-encoding", "{path}");
    }
    for path in ["/assets/gone.js", "/assets/", "/api/nowhere", "/api", "/mcp", "/webhooks/x", "/assets/../index.html"]
    {
        let missing = ask(fleet.address, browse(path)).await;
        assert_eq!((missing.status, missing.code().as_str()), (StatusCode::NOT_FOUND, "no_such_route"), "{path}");
    }
    for asking in [Asking::get("/jobs"), Asking::get("/jobs").header("accept", "*/*"), Asking::post("/jobs")] {
        assert_eq!(ask(fleet.address, asking).await.code(), "no_such_route");
    }
    let file = ask(fleet.address, browse("/assets/index-abc.js.br")).await;
    assert_eq!(file.code(), "no_such_route", "a compressed copy has no address of its own");
}

#[tokio::test]
async fn a_head_request_gets_the_length_without_the_body() {
    let dir = dist();
    let fleet = serving(dir.path()).await;

    let head = ask(fleet.address, Asking::new(Method::HEAD, "/assets/index-abc.js")).await;

    assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
    assert_eq!(head.headers["content-length"], "5");
}

#[tokio::test]
async fn a_program_gets_the_address_of_the_api() {
    let dir = dist();
    let fleet = serving(dir.path()).await;

    let about = ask(fleet.address, Asking::get("/").header("accept", "application/json")).await;

    assert_eq!(about.headers["content-type"], "application/json");
    assert_eq!(
        (about.json()["api"].as_str(), about.json()["openapi"].as_str()),
        (Some("/api/fleet"), Some("/openapi.json"))
    );
}

// [U1]
#[tokio::test]
async fn without_the_web_ui_the_root_names_the_command() {
    let empty = tempfile::tempdir().unwrap();
    let fleet = serving(empty.path()).await;

    let page = ask(fleet.address, browse("/")).await;
    let deep = ask(fleet.address, browse("/jobs")).await;

    let shown = text(&page);
    assert!(shown.contains("make web") && shown.contains("/api/fleet") && shown.contains("/openapi.json"), "{shown}");
    assert_eq!(page.headers["content-security-policy"], POLICY);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(deep.code(), "no_such_route");
}

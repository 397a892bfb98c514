//! The web UI: files built by `make web`, embedded in the binary.

mod encoding;
mod files;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::json;

use crate::app::App;
use crate::build;
use crate::etag;
use crate::problem::Problem;
use encoding::Encoding;
pub(crate) use files::WebFiles;
pub use files::is_embedded;

/// Paths of programs: they never get a page.
const RESERVED: [&str; 8] =
    ["/api", "/mcp", "/assets", "/webhooks", "/healthz", "/readyz", "/metrics", "/openapi.json"];

/// Scripts, styles and data come from the server itself; nothing is inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                      connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The security headers of every page and asset.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The names of assets have a hash of their content.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Pages are always compared with the server's, so that an upgrade is noticed.
const REVALIDATED: &str = "no-cache";

const INDEX: &str = "index.html";

/// Answers a path that is no route: with a file of the web UI, or with its page.
pub(crate) async fn fallback(State(app): State<App>, request: Request) -> Response {
    let (path, headers) = (request.uri().path(), request.headers());
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Problem::no_such_route(path).into_response();
    }
    let is_asset = path.starts_with("/assets/");
    let cache = if is_asset { IMMUTABLE } else { REVALIDATED };
    let found = if is_asset || !is_reserved(path) {
        file(&app, path.trim_start_matches('/'), headers, cache).await
    } else {
        None
    };
    let found = match found {
        None if !is_reserved(path) && accepts(headers, "text/html") => file(&app, INDEX, headers, REVALIDATED).await,
        found => found,
    };
    let response = found.unwrap_or_else(|| Problem::no_such_route(path).into_response());
    if request.method() == Method::HEAD { without_body(response) } else { response }
}

/// Answers `/`: the page of the web UI, or a short description for programs.
pub(crate) async fn index(app: &App, headers: &HeaderMap) -> Response {
    if accepts(headers, "application/json") && !accepts(headers, "text/html") {
        let about = json!({
            "name": build::coordinator_name(), "version": build::VERSION,
            "api": protocol::API_PREFIX, "openapi": "/openapi.json",
        });
        return ([(header::CONTENT_TYPE, "application/json")], about.to_string()).into_response();
    }
    match file(app, INDEX, headers, REVALIDATED).await {
        Some(page) => page,
        None => {
            let mut page = protected(Response::new(Body::from(NOT_BUILT)));
            let headers = page.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(REVALIDATED));
            page
        }
    }
}

/// A file in the best encoding that the client accepts; 304 if the client has it.
async fn file(app: &App, path: &str, headers: &HeaderMap, cache: &'static str) -> Option<Response> {
    // The compressed copies are not pages of their own.
    if Encoding::COMPRESSED.iter().any(|encoding| path.ends_with(encoding.suffix())) {
        return None;
    }
    let accepted = Encoding::accepted(headers);
    let mut found = None;
    for encoding in accepted {
        if let Some(file) = app.web.get(&format!("{path}{}", encoding.suffix())).await {
            found = Some((encoding, file));
            break;
        }
    }
    let (encoding, file) = found?;
    let tag = format!("\"{}{}\"", file.digest, encoding.suffix());
    let is_known = etag::is_known(headers, &tag);
    let mut response = protected(Response::new(if is_known { Body::empty() } else { Body::from(file.bytes) }));
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    // A path of a page has another answer for programs.
    let vary = if cache == IMMUTABLE { "accept-encoding" } else { "accept, accept-encoding" };
    headers.insert(header::VARY, HeaderValue::from_static(vary));
    headers.insert(header::ETAG, HeaderValue::from_str(&tag).ok()?);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(path)));
    if let Some(name) = encoding.name() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(name));
    }
    Some(response)
}

fn protected(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The head of an answer, with the length that its body would have.
fn without_body(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    if let Some(len) = axum::body::HttpBody::size_hint(&body).exact().filter(|_| parts.status == StatusCode::OK) {
        parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    }
    Response::from_parts(parts, Body::from(Bytes::new()))
}

fn is_reserved(path: &str) -> bool {
    let is_below =
        |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    RESERVED.iter().any(|prefix| is_below(prefix))
}

/// Whether the client names a media type; `*/*` is not enough.
fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = values.flat_map(|value| value.split(','));
    kinds.any(|given| given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind))
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

const NOT_BUILT: &str = "\
<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>Gigafactory</title>
<h1>Gigafactory</h1>
<p>This is a coordinator: it gives jobs to factories, which run coding agents.</p>
<p>This binary was built without the web UI. <code>make web</code> builds the UI (it needs Node.js); then build
<code>giga</code> again with <code>make build</code>.</p>
<p>The API is under <code>/api/fleet</code>, and <a href=\"/openapi.json\">/openapi.json</a> describes it.
<code>giga --help</code> says how to use it from a terminal.</p>
</html>
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_programs_are_reserved() {
        for path in ["/api", "/api/fleet/nowhere", "/mcp", "/assets/x.js", "/webhooks/x", "/healthz", "/openapi.json"] {
            assert!(is_reserved(path), "{path}");
        }
        for path in ["/", "/jobs", "/apiary", "/metrics-page", "/sign-in"] {
            assert!(!is_reserved(path), "{path}");
        }
    }

    #[test]
    fn a_page_is_only_for_clients_that_ask_for_html() {
        let accepting = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, value.parse().unwrap());
            accepts(&headers, "text/html")
        };

        assert!(accepting("text/html,application/xhtml+xml,*/*;q=0.8") && accepting("Text/HTML;q=0.9"));
        assert!(!accepting("*/*") && !accepting("application/json") && !accepts(&HeaderMap::new(), "text/html"));
    }
}

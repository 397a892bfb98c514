//! Extractors: they parse the parts of a request, or reject it with a problem.

use std::fmt::Display;
use std::str::FromStr;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Query, RawPathParams, Request};
use bytes::{Bytes, BytesMut};
use domain::ProductId;
use http::request::Parts;
use http::{HeaderMap, Method, header};
use http_body_util::BodyExt;
use protocol::{Action, SubmitRequest};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IntoDeserializer};

use crate::app::App;
use crate::body_budget::Reservation;
use crate::problem::Problem;

/// Ordinary requests are a few hundred bytes; a heartbeat with a thousand capabilities is the longest.
pub(crate) const ORDINARY_LEN_MAX: usize = 256 * 1024;

/// One manifest: the parser takes 1 MiB, and JSON may escape every other byte of it.
pub(crate) const MANIFEST_LEN_MAX: usize = 2 * 1024 * 1024;

/// A final report: evidence of a hundred verify commands, which factories truncate long before this.
pub(crate) const REPORT_LEN_MAX: usize = 4 * 1024 * 1024;

/// A thousand manifests or operations of ordinary size.
pub(crate) const BATCH_LEN_MAX: usize = 32 * 1024 * 1024;

/// One chunk of a log: the coordinator's limit.
pub(crate) const CHUNK_LEN_MAX: usize = 1024 * 1024;

/// An idempotency key, in a header as in a body.
const KEY_LEN_MAX: usize = 190;

/// How much of a body that is too long is read and discarded, so that its sender gets the error instead of a closed
/// connection.
const SKIPPED_LEN_MAX: u64 = 16 * 1024 * 1024;

/// A JSON body of at most `LEN_MAX` bytes. An empty body means `{}`.
pub(crate) struct JsonBody<T, const LEN_MAX: usize = ORDINARY_LEN_MAX>(pub(crate) T);

impl<T: DeserializeOwned, const LEN_MAX: usize> FromRequest<App> for JsonBody<T, LEN_MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let is_json = content_type(request.headers()).is_some_and(is_json);
        let target = Target::of(&request);
        let body = read(request, app, LEN_MAX).await?;
        match body.bytes.as_ref() {
            b"" => parse(b"{}").map(Self),
            _ if !is_json => Err(Problem::content_type("application/json")),
            bytes => target.parse(bytes, app).map(Self),
        }
    }
}

/// A raw body of at most `LEN_MAX` bytes.
pub(crate) struct RawBody<const LEN_MAX: usize>(pub(crate) Bytes);

impl<const LEN_MAX: usize> FromRequest<App> for RawBody<LEN_MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        read(request, app, LEN_MAX).await.map(|body| Self(body.bytes))
    }
}

/// One job to submit: JSON, or the manifest itself with the rest in headers.
pub(crate) struct SubmitBody(pub(crate) SubmitRequest);

impl FromRequest<App> for SubmitBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let product = product(request.headers())?;
        let key = text_header(request.headers(), "idempotency-key")?;
        if key.as_ref().is_some_and(|key| !(1..=KEY_LEN_MAX).contains(&key.len())) {
            let detail = format!("the header `idempotency-key` has 1 to {KEY_LEN_MAX} characters");
            return Err(Problem::invalid(detail));
        }
        let kind = content_type(request.headers()).map(str::to_owned).unwrap_or_default();
        let target = Target::of(&request);
        let body = read(request, app, MANIFEST_LEN_MAX).await?;
        let mut submit = if is_json(&kind) {
            target.parse::<SubmitRequest>(&body.bytes, app)?
        } else if matches!(kind.as_str(), "text/markdown" | "text/x-markdown") {
            let body_md = String::from_utf8(body.bytes.into())
                .map_err(|error| Problem::invalid(format!("the manifest is not UTF-8: {error}")))?;
            SubmitRequest { body_md, ..SubmitRequest::default() }
        } else {
            return Err(Problem::content_type("application/json or text/markdown"));
        };
        submit.product_id = submit.product_id.or(product);
        submit.idempotency_key = submit.idempotency_key.or(key);
        Ok(Self(submit))
    }
}

/// The `{id}` of the path.
pub(crate) struct Id<T>(pub(crate) T);

impl<S, T> FromRequestParts<S> for Id<T>
where
    S: Send + Sync,
    T: FromStr,
    T::Err: Display,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        parsed_part(parts, state, "id").await.map(Self)
    }
}

/// The `{name}` of the path.
pub(crate) struct Name<T>(pub(crate) T);

impl<S, T> FromRequestParts<S> for Name<T>
where
    S: Send + Sync,
    T: FromStr,
    T::Err: Display,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        parsed_part(parts, state, "name").await.map(Self)
    }
}

async fn parsed_part<S, T>(parts: &mut Parts, state: &S, part: &str) -> Result<T, Problem>
where
    S: Send + Sync,
    T: FromStr,
    T::Err: Display,
{
    let text = path_part(parts, state, part).await?;
    text.parse().map_err(|error: T::Err| Problem::invalid(error.to_string()))
}

/// The `{action}` of the path.
pub(crate) struct ActionName(pub(crate) Action);

impl<S: Send + Sync> FromRequestParts<S> for ActionName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = path_part(parts, state, "action").await?;
        let name: serde::de::value::StrDeserializer<'_, serde::de::value::Error> = text.as_str().into_deserializer();
        Action::deserialize(name).map(Self).map_err(|error| Problem::invalid(error.to_string()))
    }
}

/// The `{n}` of the path: a run's number.
pub(crate) struct RunNumber(pub(crate) u32);

impl<S: Send + Sync> FromRequestParts<S> for RunNumber {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = path_part(parts, state, "n").await?;
        text.parse().map(Self).map_err(|_| Problem::invalid("a run is named by its number, from 1"))
    }
}

/// The query parameters.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(rejection) => Err(Problem::invalid(rejection.body_text())),
        }
    }
}

/// The product of `x-product-id`: the default of a request without one.
pub(crate) struct DefaultProduct(pub(crate) Option<ProductId>);

impl<S: Send + Sync> FromRequestParts<S> for DefaultProduct {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        product(&parts.headers).map(Self)
    }
}

/// The names in a comma-separated list; an absent list has none.
pub(crate) fn parse_list<T>(list: Option<&str>) -> Result<Vec<T>, Problem>
where
    T: FromStr,
    T::Err: Display,
{
    let parts = list.into_iter().flat_map(|list| list.split(','));
    parts.map(|part| part.parse().map_err(|error: T::Err| Problem::invalid(error.to_string()))).collect()
}

async fn path_part<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, Problem> {
    let params = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    let found = params.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
    found.ok_or_else(|| Problem::no_such_route(parts.uri.path()))
}

/// A received body, with its part of the budget until it is parsed.
pub(crate) struct BufferedBody {
    pub(crate) bytes: Bytes,
    _reserved: Reservation,
}

async fn read(request: Request, app: &App, len_max: usize) -> Result<BufferedBody, Problem> {
    let reserved = app.body_budget.reserve(&request);
    receive(request.into_body(), reserved, app, len_max).await
}

/// Receives a body of at most `len_max` bytes, in time and within the budget.
pub(crate) async fn receive(
    mut body: Body,
    mut reserved: Reservation,
    app: &App,
    len_max: usize,
) -> Result<BufferedBody, Problem> {
    let time_max = app.limits.body_time_max;
    match tokio::time::timeout(time_max, read_all(&mut body, len_max, &mut reserved)).await {
        Ok(read) => read.map(|bytes| BufferedBody { bytes, _reserved: reserved }),
        Err(_) => {
            let seconds = time_max.as_secs_f32();
            Err(Problem::unfinished_body(format!("the body did not arrive within {seconds} seconds")))
        }
    }
}

async fn read_all(body: &mut Body, len_max: usize, reserved: &mut Reservation) -> Result<Bytes, Problem> {
    let len_min = body.size_hint().lower();
    let is_too_large = len_min > len_max as u64;
    if is_too_large {
        skip(body, len_min).await;
        return Err(Problem::too_large(len_max));
    }
    let mut received = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Problem::unfinished_body(format!("the connection was lost while receiving the body: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let len = received.len() + rest.len() + data.len();
        if len > len_max {
            skip(body, 0).await;
            return Err(Problem::too_large(len_max));
        }
        reserved.grow_to(len)?;
        // Most bodies are one frame, which is not copied.
        match received.is_empty() && rest.is_empty() {
            true => received = data,
            false => {
                if rest.is_empty() {
                    rest.extend_from_slice(&std::mem::take(&mut received));
                }
                rest.extend_from_slice(&data);
            }
        }
    }
    Ok(if rest.is_empty() { received } else { rest.freeze() })
}

/// Reads and discards what is left of a body, unless it is too long for that.
pub(crate) async fn skip(body: &mut Body, len_min: u64) {
    let mut left = SKIPPED_LEN_MAX;
    if len_min > left {
        return;
    }
    while let Some(Ok(frame)) = body.frame().await {
        let len = frame.data_ref().map_or(0, |data| data.len() as u64);
        if len > left {
            return;
        }
        left -= len;
    }
}

/// The operation of a request: its body is checked against the schema before it is parsed.
struct Target {
    method: Method,
    path: Option<MatchedPath>,
}

impl Target {
    fn of(request: &Request) -> Self {
        Self { method: request.method().clone(), path: request.extensions().get::<MatchedPath>().cloned() }
    }

    fn parse<T: DeserializeOwned>(&self, bytes: &[u8], app: &App) -> Result<T, Problem> {
        if let Some(path) = &self.path {
            app.request_schemas.check_body(&self.method, path.as_str(), bytes)?;
        }
        parse(bytes)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| Problem::json(&error))
}

fn content_type(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(kind.split(';').next().unwrap_or_default().trim())
}

fn is_json(kind: &str) -> bool {
    kind.eq_ignore_ascii_case("application/json")
}

fn product(headers: &HeaderMap) -> Result<Option<ProductId>, Problem> {
    match text_header(headers, "x-product-id")? {
        Some(text) => text.parse().map(Some).map_err(|error: domain::NameError| Problem::invalid(error.to_string())),
        None => Ok(None),
    }
}

fn text_header(headers: &HeaderMap, name: &'static str) -> Result<Option<String>, Problem> {
    match headers.get(name).map(|value| value.to_str()) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text.to_owned())),
        Some(Err(_)) => Err(Problem::invalid(format!("the header `{name}` is not plain text"))),
    }
}

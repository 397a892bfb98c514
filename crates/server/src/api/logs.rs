//! Engine output, live [J9].

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use coordinator::{LogReader, LogStart};
use domain::{Epoch, JobId};
use http::HeaderValue;
use protocol::AppendLogResponse;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{CHUNK_LEN_MAX, Id, QueryParams, RawBody};
use crate::json_response::Json;
use crate::problem::Problem;
use crate::streaming::{self, Source};

/// The part of a log to return.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogQuery {
    /// The run, by its epoch; the latest that printed anything when absent.
    epoch: Option<u64>,
    /// Start offset in bytes.
    offset: Option<u64>,
    /// Only the last bytes, from the beginning of a line on. Not together with `offset`.
    #[param(minimum = 1, maximum = 1_048_576)]
    tail: Option<u64>,
    /// Follow until the run ends.
    #[serde(default)]
    follow: bool,
}

/// A job's log as text; `x-log-epoch` has the epoch of its run.
///
/// `tail` returns the end of the log, and continues live with `follow`.
#[utoipa::path(
    get, path = "/jobs/{id}/logs", tag = "jobs", params(("id" = JobId, Path, description = "The job"), LogQuery),
    responses((status = 200, description = "The text", body = String, content_type = "text/plain", headers(
        ("x-log-epoch" = u64, description = "The epoch of the run that printed it"),
        ("x-log-length" = u64, description = "The length of the whole log in bytes, so far"),
        ("x-log-offset" = u64, description = "Where the text begins in it"),
    ))),
)]
pub(crate) async fn read(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    QueryParams(asked): QueryParams<LogQuery>,
) -> Result<Response, Problem> {
    let start = match (asked.offset, asked.tail) {
        (Some(_), Some(_)) => return Err(Problem::invalid("give `offset` or `tail`, not both")),
        (_, Some(bytes)) => LogStart::Tail(bytes),
        (offset, None) => LogStart::Offset(offset.unwrap_or(0)),
    };
    let permit = app.streams.open(&who)?;
    let log = app.coordinator.log(&who, id, asked.epoch.map(Epoch), start, asked.follow).await?;
    let marks = [("x-log-epoch", log.epoch().0), ("x-log-length", log.length()), ("x-log-offset", log.offset())];
    let mut response = streaming::hold(&app, permit, Log { log }, "text/plain; charset=utf-8");
    for (name, value) in marks {
        response.headers_mut().insert(name, HeaderValue::from(value));
    }
    Ok(response)
}

struct Log {
    log: LogReader,
}

impl Source for Log {
    async fn next(&mut self) -> Option<Bytes> {
        self.log.next().await.map(Bytes::from)
    }

    /// No keep-alive: it would look like output.
    fn keep_alive(&self) -> Option<Bytes> {
        None
    }

    fn too_slow(&self) -> Option<Bytes> {
        None
    }
}

/// The position of a chunk.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ChunkQuery {
    /// The epoch of the lease.
    lease_epoch: u64,
    /// Offset of the chunk in bytes.
    offset: u64,
}

/// Appends a factory's output to the log. A repeated chunk changes nothing.
#[utoipa::path(
    post, path = "/jobs/{id}/logs", tag = "work", params(("id" = JobId, Path, description = "The job"), ChunkQuery),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 200, description = "Length of the log", body = AppendLogResponse)),
)]
pub(crate) async fn append(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    QueryParams(asked): QueryParams<ChunkQuery>,
    RawBody(chunk): RawBody<CHUNK_LEN_MAX>,
) -> Result<Json<AppendLogResponse>, Problem> {
    let length = app.coordinator.append_log(&who, id, Epoch(asked.lease_epoch), asked.offset, &chunk).await?;
    Ok(Json(AppendLogResponse { length }))
}

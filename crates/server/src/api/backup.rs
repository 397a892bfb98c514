//! Backup and restore of the whole fleet in one file.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use domain::StoreError;
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use protocol::{REPLACE_EVERYTHING, RestoreSummary, SUMMARY_HEADER};
use serde::Deserialize;
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt;
use tokio_util::io::ReaderStream;
use tracing::{info, warn};
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::backup_service::{BackupServiceError, ScratchFile};
use crate::extract::QueryParams;
use crate::json_response::Json;
use crate::problem::Problem;
use crate::run_to_completion::RunToCompletion;

/// How much of a backup is in memory at one time.
const CHUNK_LEN: usize = 256 * 1024;

/// The content type of a backup.
const SQLITE: &str = "application/vnd.sqlite3";

/// Backs up the coordinator to one SQLite file (online). Logs of runs are not included.
///
/// The header `x-backup-summary` describes the contents and has the digest.
#[utoipa::path(
    get, path = "/backup", tag = "operations",
    responses((status = 200, description = "The file", body = String, content_type = "application/vnd.sqlite3", headers(("x-backup-summary" = String, description = "The backup's contents: a `BackupSummary` as JSON")))),
)]
pub(crate) async fn back_up(State(app): State<App>, Caller(who): Caller) -> Result<Response, Problem> {
    who.require_admin()?;
    let backups = Arc::clone(app.backup_service()?);
    let copying = async move {
        let scratch = ScratchFile::in_backup_service(backups.as_ref());
        backups.back_up(scratch.path()).await.map(|summary| (scratch, summary))
    };
    // A backup in progress cannot be cancelled. If its client disconnects, it keeps its lock and its file, so that no
    // second one runs beside it.
    let (scratch, summary) = RunToCompletion::new(copying, app.changes.clone()).await?;
    let file = File::open(scratch.path()).await.map_err(|error| unreadable(&error))?;
    // The file exists only while it is read, even if this process dies meanwhile.
    drop(scratch);
    info!(backup.bytes = summary.bytes, "`{}` started a backup of {}", who.name, domain::counted(summary.jobs, "job"));
    let mut response = Response::new(Body::from_stream(ReaderStream::with_capacity(file, CHUNK_LEN)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(SQLITE));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(summary.bytes));
    let told = serde_json::to_string(&summary).unwrap_or_default();
    if let Ok(told) = HeaderValue::from_str(&told) {
        headers.insert(SUMMARY_HEADER, told);
    }
    Ok(response)
}

/// Confirmation of a restore.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RestoreQuery {
    /// `everything`: all current data is replaced. It is kept in a file beside the new database.
    #[param(pattern = "^everything$", max_length = 10)]
    replace: Option<String>,
}

/// Restores a backup, replacing all data. The coordinator then restarts, and leases newer than the backup are fenced.
#[utoipa::path(
    post, path = "/restore", tag = "operations", params(RestoreQuery),
    request_body(content = String, content_type = "application/vnd.sqlite3"),
    responses((status = 202, description = "The backup is restored, and the coordinator restarts", body = RestoreSummary)),
)]
pub(crate) async fn restore(
    State(app): State<App>,
    Caller(who): Caller,
    QueryParams(asked): QueryParams<RestoreQuery>,
    request: Request,
) -> Result<(StatusCode, Json<RestoreSummary>), Problem> {
    who.require_admin()?;
    let backups = app.backup_service()?;
    if asked.replace.as_deref() != Some(REPLACE_EVERYTHING) {
        return Err(Problem::unconfirmed_restore());
    }
    let scratch = ScratchFile::in_backup_service(backups.as_ref());
    receive(request.into_body(), &scratch, app.limits.restore_len_max, app.limits.body_time_max).await?;
    let restored = backups.restore(scratch.path()).await?;
    warn!(store.generation = %restored.generation, "`{}` started a restore: {}", who.name, restored.notice);
    Ok((StatusCode::ACCEPTED, Json(restored)))
}

/// Writes a body to a file as it arrives.
async fn receive(mut body: Body, scratch: &ScratchFile, len_max: u64, stall_max: Duration) -> Result<(), Problem> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(scratch.path()).await.map_err(|error| unreadable(&error))?;
    let mut len = 0;
    loop {
        let frame = tokio::time::timeout(stall_max, body.frame()).await;
        let frame = frame.map_err(|_| Problem::unfinished_body("the body stopped arriving"))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| {
            Problem::unfinished_body(format!("the connection was lost while receiving the body: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        len += data.len() as u64;
        if len > len_max {
            return Err(Problem::too_large(usize::try_from(len_max).unwrap_or(usize::MAX)));
        }
        file.write_all(&data).await.map_err(|error| unreadable(&error))?;
    }
    file.flush().await.map_err(|error| unreadable(&error))
}

fn unreadable(error: &io::Error) -> Problem {
    BackupServiceError::Store(StoreError::Unavailable(error.to_string())).into()
}

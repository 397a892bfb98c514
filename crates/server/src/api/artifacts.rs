//! Artifacts: files that runs leave [J8].

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use coordinator::{ArtifactContent, ArtifactUpload, NewArtifact, Principal, UploadStart};
use domain::{ArtifactId, ArtifactName, BlobReader, ContentType, Epoch, JobId, Sha256};
use futures_util::stream;
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use protocol::{API_PREFIX, ArtifactLink, ArtifactList, ArtifactView};
use serde::Deserialize;
use tracing::warn;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Id, QueryParams, skip};
use crate::json_response::Json;
use crate::problem::Problem;

/// Nothing of an artifact is ever shown by a browser, or runs in one.
const NOTHING: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'; frame-ancestors 'none'");

/// The artifacts of a job, and how many it may have.
#[utoipa::path(
    get, path = "/jobs/{id}/artifacts", tag = "jobs", params(("id" = JobId, Path, description = "The job")),
    responses((status = 200, description = "Oldest first", body = ArtifactList)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
) -> Result<Json<ArtifactList>, Problem> {
    Ok(Json(app.coordinator.artifacts(&who, id).await?))
}

/// What is attached.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct AttachQuery {
    /// The epoch of the lease.
    lease_epoch: u64,
    /// The name for people, such as `coverage/report.html`. It is never used as a path.
    name: ArtifactName,
    /// Digest of the body.
    sha256: Sha256,
    /// The content type; `application/octet-stream` when absent.
    content_type: Option<ContentType>,
}

/// Attaches a file to the run that the calling factory works on. The same name with the same content is attached once.
///
/// The body is stored as it arrives. Size, number and the digest are checked before the job points to it.
#[utoipa::path(
    post, path = "/jobs/{id}/artifacts", tag = "work", params(("id" = JobId, Path, description = "The job"), AttachQuery),
    request_body(content = String, content_type = "application/octet-stream"),
    responses(
        (status = 201, description = "The new artifact", body = ArtifactView, headers(("Location" = String, description = "The artifact's path"))),
        (status = 200, description = "The run has attached it before", body = ArtifactView, headers(("Location" = String, description = "The artifact's path"))),
    ),
)]
pub(crate) async fn attach(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    QueryParams(asked): QueryParams<AttachQuery>,
    request: Request,
) -> Result<Response, Problem> {
    let mut body = request.into_body();
    let attached = attach_body(&app, &who, id, asked, &mut body).await;
    let (status, view) = match attached {
        Ok(attached) => attached,
        Err(problem) => {
            // So that its sender gets the answer instead of a closed connection.
            let len_min = body.size_hint().lower();
            let _ = tokio::time::timeout(app.limits.body_time_max, skip(&mut body, len_min)).await;
            return Err(problem);
        }
    };
    let location = format!("{API_PREFIX}/artifacts/{}", view.id);
    Ok((status, [(header::LOCATION, location)], Json(view)).into_response())
}

async fn attach_body(
    app: &App,
    who: &Principal,
    id: JobId,
    asked: AttachQuery,
    body: &mut Body,
) -> Result<(StatusCode, ArtifactView), Problem> {
    let new = NewArtifact {
        epoch: Epoch(asked.lease_epoch),
        name: asked.name,
        content_type: asked.content_type.unwrap_or_else(ContentType::unknown),
        sha256: asked.sha256,
        bytes_min: body.size_hint().lower(),
    };
    match app.coordinator.begin_artifact(who, id, new).await? {
        UploadStart::Known(view) => {
            skip(body, body.size_hint().lower()).await;
            Ok((StatusCode::OK, view))
        }
        UploadStart::Ready(mut upload) => match receive(&mut upload, body, app.limits.body_time_max).await {
            Ok(()) => Ok((StatusCode::CREATED, upload.finish().await?)),
            Err(problem) => {
                upload.abort().await;
                Err(problem)
            }
        },
    }
}

/// Passes a body on as it arrives: one frame of it is in memory.
async fn receive(upload: &mut ArtifactUpload, body: &mut Body, stall_max: Duration) -> Result<(), Problem> {
    loop {
        let frame = tokio::time::timeout(stall_max, body.frame()).await;
        let frame = frame.map_err(|_| Problem::unfinished_body("the body stopped arriving"))?;
        let Some(frame) = frame else { return Ok(()) };
        let frame = frame.map_err(|error| {
            Problem::unfinished_body(format!("the connection was lost while receiving the body: {error}"))
        })?;
        if let Ok(data) = frame.into_data() {
            upload.write(&data).await?;
        }
    }
}

/// How an artifact is downloaded.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DownloadQuery {
    /// The coordinator passes the bytes on, also where the object store signs URLs.
    #[serde(default)]
    proxied: bool,
}

/// The bytes of an artifact, always as an attachment.
///
/// Where the object store signs URLs and the coordinator is configured to use them, the answer is a redirect to one.
#[utoipa::path(
    get, path = "/artifacts/{id}", tag = "jobs", params(("id" = ArtifactId, Path, description = "The artifact"), DownloadQuery),
    responses(
        (status = 200, description = "The bytes", body = String, content_type = "application/octet-stream", headers(
            ("Content-Disposition" = String, description = "`attachment`, with the name"),
            ("ETag" = String, description = "The SHA-256 digest of the bytes"),
        )),
        (status = 302, description = "The bytes are at `Location`, for a short time", headers(("Location" = String, description = "A signed URL of the object store"))),
    ),
)]
pub(crate) async fn download(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<ArtifactId>,
    QueryParams(asked): QueryParams<DownloadQuery>,
) -> Result<Response, Problem> {
    let (view, content) = app.coordinator.artifact(&who, id, !asked.proxied).await?;
    match content {
        ArtifactContent::Url(url) => Ok((StatusCode::FOUND, [(header::LOCATION, url)]).into_response()),
        ArtifactContent::Bytes(reader) => Ok(attachment(&view, reader)),
    }
}

/// Where a browser gets the bytes of an artifact without a token.
///
/// A link cannot carry a token. Where the object store signs no URLs, read the bytes with `?proxied=true`.
#[utoipa::path(
    get, path = "/artifacts/{id}/link", tag = "jobs", params(("id" = ArtifactId, Path, description = "The artifact")),
    responses((status = 200, description = "The signed URL, if there is one", body = ArtifactLink)),
)]
pub(crate) async fn link(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<ArtifactId>,
) -> Result<Json<ArtifactLink>, Problem> {
    Ok(Json(app.coordinator.artifact_link(&who, id).await?))
}

/// Removes an artifact. Its number is never used again.
#[utoipa::path(
    delete, path = "/artifacts/{id}", tag = "jobs", params(("id" = ArtifactId, Path, description = "The artifact")),
    responses((status = 200, description = "What was removed", body = ArtifactView)),
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<ArtifactId>,
) -> Result<Json<ArtifactView>, Problem> {
    Ok(Json(app.coordinator.remove_artifact(&who, id).await?))
}

fn attachment(view: &ArtifactView, reader: Box<dyn BlobReader>) -> Response {
    let bytes = reader.bytes();
    let id = view.id;
    let pieces = stream::unfold(Some(reader), move |reader| async move {
        let mut reader = reader?;
        match reader.next().await {
            Ok(Some(piece)) => Some((Ok(Bytes::from(piece)), Some(reader))),
            Ok(None) => None,
            Err(error) => {
                warn!(artifact.id = %id, %error, "Artifact {id} could not be read to its end");
                // The connection breaks, so that its client does not take a part for the whole.
                Some((Err(error), None))
            }
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    headers.insert(header::CONTENT_SECURITY_POLICY, NOTHING);
    if let Ok(disposition) = HeaderValue::from_str(&domain::attachment_disposition(&view.name)) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", view.sha256)) {
        headers.insert(header::ETAG, tag);
    }
    response
}

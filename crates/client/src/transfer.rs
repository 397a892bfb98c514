//! Streamed downloads and uploads of large files.

use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use http::{HeaderValue, Method, Request, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde::de::DeserializeOwned;
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use crate::client::{Client, ClientError, LogStream};
use crate::http::TransportError;

/// Timeout until the first byte: the coordinator copies its whole store first.
const OPENING_TIME_MAX: Duration = Duration::from_mins(30);

/// Timeout of an upload, including its verification.
const UPLOAD_TIME_MAX: Duration = Duration::from_hours(2);

/// Bytes of a file in memory at one time.
const CHUNK_LEN: usize = 256 * 1024;

/// A download in progress.
pub struct Download {
    /// The value of the requested response header.
    pub told: Option<String>,
    /// The bytes as they arrive.
    pub bytes: LogStream,
}

impl Client {
    /// Downloads a file under the API, with the value of one response header.
    pub async fn download(&self, path: &str, about: &str) -> Result<Download, ClientError> {
        let request = self.request(Method::GET, path, "application/json", Bytes::new())?;
        let response = self.opened(request, OPENING_TIME_MAX).await?;
        let told = response.headers().get(about).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Ok(Download { told, bytes: self.stream(response.into_body()) })
    }

    /// Uploads a file of `len` bytes with `POST`.
    pub async fn upload<A: DeserializeOwned>(
        &self,
        path: &str,
        kind: &str,
        file: File,
        len: u64,
    ) -> Result<A, ClientError> {
        let chunks = ReaderStream::with_capacity(file, CHUNK_LEN);
        let frames = chunks.map_ok(Frame::data).map_err(|error| TransportError::new(error.to_string()));
        let (mut head, _) = self.request(Method::POST, path, kind, Bytes::new())?.into_parts();
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
        let request = Request::from_parts(head, StreamBody::new(frames).boxed_unsync());
        self.uploaded(request, UPLOAD_TIME_MAX).await
    }
}

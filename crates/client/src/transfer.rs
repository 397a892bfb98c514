//! Streamed downloads and uploads of large files.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt, stream};
use http::{HeaderValue, Method, Request, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde::de::DeserializeOwned;
use tokio::fs::File;
use tokio::sync::mpsc;
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
        self.upload_stream(path, kind, ReaderStream::with_capacity(file, CHUNK_LEN), len).await
    }

    /// Uploads `len` bytes with `POST`, in chunks as they arrive.
    pub async fn upload_chunks<A: DeserializeOwned>(
        &self,
        path: &str,
        kind: &str,
        mut chunks: mpsc::Receiver<io::Result<Bytes>>,
        len: u64,
    ) -> Result<A, ClientError> {
        self.upload_stream(path, kind, stream::poll_fn(move |context| chunks.poll_recv(context)), len).await
    }

    async fn upload_stream<A: DeserializeOwned>(
        &self,
        path: &str,
        kind: &str,
        chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
        len: u64,
    ) -> Result<A, ClientError> {
        let frames = chunks.map_ok(Frame::data).map_err(|error| TransportError::new(error.to_string()));
        let (mut head, _) = self.request(Method::POST, path, kind, Bytes::new())?.into_parts();
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
        let request = Request::from_parts(head, StreamBody::new(frames).boxed_unsync());
        self.uploaded(request, UPLOAD_TIME_MAX).await
    }
}

//! Streaming answers: event streams and live logs.
//!
//! Nothing is queued for a reader. The connection polls the next piece when it has space, so a client that does not
//! read costs one connection and no memory; it reads what it missed from the store, or is reset.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use domain::Clock;
use futures_util::stream;
use http::{HeaderValue, header};

use crate::app::App;
use crate::streams::Permit;

/// The source of a streaming answer.
pub(crate) trait Source: Send + 'static {
    /// The next piece; `None` at the end. Must be cancel-safe.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
    /// The keep-alive piece of an idle stream.
    fn keep_alive(&self) -> Option<Bytes>;
    /// The last piece for a reader that is too slow; `None` for a stream without that limit.
    fn too_slow(&self) -> Option<Bytes>;
}

/// Streams the pieces of `source` until it ends, the token becomes invalid or the server stops.
pub(crate) fn hold<S: Source>(app: &App, permit: Permit, source: S, content_type: &'static str) -> Response {
    let line = Line {
        source,
        permit,
        clock: Arc::clone(&app.clock),
        keep_alive_every: app.limits.keep_alive_every,
        slow_reader_max: app.limits.slow_reader_max,
        given_at: None,
        is_over: false,
    };
    let pieces = stream::unfold(line, |mut line| async move {
        let piece = line.next().await?;
        Some((Ok::<_, Infallible>(piece), line))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Proxies of the nginx family would buffer the stream.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Line<S> {
    source: S,
    permit: Permit,
    clock: Arc<dyn Clock>,
    keep_alive_every: Duration,
    slow_reader_max: Duration,
    given_at: Option<Duration>,
    is_over: bool,
}

impl<S: Source> Line<S> {
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        if self.is_reader_slow()
            && let Some(last) = self.source.too_slow()
        {
            self.is_over = true;
            return Some(last);
        }
        let piece = self.wait().await;
        self.given_at = Some(self.clock.monotonic());
        piece
    }

    /// The connection polls a piece once it has space for it: a long time since the last one means a slow reader.
    fn is_reader_slow(&self) -> bool {
        let now = self.clock.monotonic();
        self.given_at.is_some_and(|at| now.saturating_sub(at) > self.slow_reader_max)
    }

    async fn wait(&mut self) -> Option<Bytes> {
        let keep_alive = self.source.keep_alive();
        tokio::select! {
            biased;
            () = self.permit.over() => None,
            piece = self.source.next() => piece,
            () = self.clock.sleep(self.keep_alive_every), if keep_alive.is_some() => keep_alive,
        }
    }
}

#[cfg(test)]
mod tests {
    use clock::ManualClock;
    use tokio_util::sync::CancellationToken;

    use crate::auth::reader;
    use crate::streams::Streams;

    use super::*;

    /// Repeats the same piece.
    struct Parrot;

    impl Source for Parrot {
        async fn next(&mut self) -> Option<Bytes> {
            Some(Bytes::from_static(b"hello"))
        }

        fn keep_alive(&self) -> Option<Bytes> {
            None
        }

        fn too_slow(&self) -> Option<Bytes> {
            Some(Bytes::from_static(b"reset"))
        }
    }

    fn line(clock: &ManualClock, closing: &CancellationToken) -> Line<Parrot> {
        let streams = Arc::new(Streams::new(1, closing.clone()));
        Line {
            source: Parrot,
            permit: streams.open(&reader()).unwrap(),
            clock: Arc::new(clock.clone()),
            keep_alive_every: Duration::from_secs(15),
            slow_reader_max: Duration::from_secs(20),
            given_at: None,
            is_over: false,
        }
    }

    #[tokio::test]
    async fn a_slow_reader_is_reset() {
        let clock = ManualClock::default();
        let mut line = line(&clock, &CancellationToken::new());

        let mut given = Vec::new();
        for pause in [0, 20, 21, 0] {
            clock.advance(Duration::from_secs(pause));
            given.push(line.next().await);
        }

        let expected = [Some("hello"), Some("hello"), Some("reset"), None];
        assert_eq!(given, expected.map(|piece| piece.map(Bytes::from)));
    }

    #[tokio::test]
    async fn a_stream_ends_when_the_server_stops() {
        let closing = CancellationToken::new();
        let mut line = line(&ManualClock::default(), &closing);
        assert!(line.next().await.is_some());

        closing.cancel();

        assert_eq!(line.next().await, None);
    }
}

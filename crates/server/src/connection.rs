//! One connection, from the handshake to its end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use domain::Clock;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::debug;

use crate::auth::ConnectionAddresses;
use crate::connections::{ConnectionSlot, GuardedBody, ReadWatch};
use crate::options::Limits;
use crate::tls;
use crate::write_timeout::WriteTimeout;

/// The longest head of a request; the write buffer has about the same size.
const BUFFER_LEN_MAX: usize = 64 * 1024;

/// Concurrent requests of one HTTP/2 connection: the tabs of one browser, each with its streams.
const REQUESTS_MAX: u32 = 128;

/// Unsent bytes of one HTTP/2 answer.
const SEND_BUFFER_LEN_MAX: usize = 64 * 1024;

/// The state shared by all connections.
#[derive(Clone)]
pub(crate) struct ConnectionContext {
    pub(crate) limits: Arc<Limits>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The routes of the server's role: connections outlive changes of the role.
    pub(crate) router: watch::Receiver<Router>,
    pub(crate) tls: Option<TlsAcceptor>,
    /// Stops new requests.
    pub(crate) closing: CancellationToken,
    /// The time for finishing is over.
    pub(crate) killed: CancellationToken,
}

/// The answer to a plain HTTP request on a TLS port.
const PLAIN_HTTP: &str = r#"{"type":"urn:gigafactory:problem:tls_required","title":"tls required","status":400,"detail":"this coordinator speaks TLS: use https:// in its address","code":"tls_required"}"#;

/// How long a client that sends plain HTTP has to finish its request, and how much of it is read.
const PLAIN_TIME_MAX: Duration = Duration::from_secs(2);
const PLAIN_LEN_MAX: u64 = 64 * 1024;

/// Whether a client begins with an HTTP method instead of a TLS handshake.
async fn is_plain_http(stream: &TcpStream, time_max: Duration) -> bool {
    let mut first = [0];
    let peeked = tokio::time::timeout(time_max, stream.peek(&mut first)).await;
    matches!(peeked, Ok(Ok(1))) && first[0].is_ascii_uppercase()
}

/// Reports the error in the client's own protocol: otherwise it sees only a closed connection.
async fn refuse_plain_http(mut stream: TcpStream) {
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{PLAIN_HTTP}",
        PLAIN_HTTP.len()
    );
    let exchange = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing a connection with unread data would discard the answer.
        tokio::io::copy(&mut stream.take(PLAIN_LEN_MAX), &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(PLAIN_TIME_MAX, exchange).await;
}

impl ConnectionContext {
    /// Serves one connection until it ends.
    pub(crate) async fn serve(self, stream: TcpStream, seat: Arc<ConnectionSlot>) {
        let killed = self.killed.clone();
        tokio::select! {
            () = self.serve_stream(stream, seat) => {}
            () = killed.cancelled() => {}
        }
    }

    async fn serve_stream(self, stream: TcpStream, seat: Arc<ConnectionSlot>) {
        // Answers are sent at once: nothing follows that could share a packet.
        let _ = stream.set_nodelay(true);
        let (Ok(peer), Ok(local)) = (stream.peer_addr(), stream.local_addr()) else { return };
        let ends = ConnectionAddresses { peer: peer.ip(), local: local.ip() };
        let Some(tls) = self.tls.clone() else { return self.answer(stream, ends, seat, Protocol::Http1).await };
        if is_plain_http(&stream, self.limits.header_time_max).await {
            return refuse_plain_http(stream).await;
        }
        let handshake = tokio::time::timeout(self.limits.header_time_max, tls.accept(stream));
        let stream = tokio::select! {
            stream = handshake => stream,
            () = seat.closed() => return,
        };
        match stream {
            Ok(Ok(stream)) => {
                let protocol = Protocol::agreed(stream.get_ref().1.alpn_protocol());
                self.answer(stream, ends, seat, protocol).await;
            }
            Ok(Err(error)) => debug!(%peer, %error, "A TLS handshake failed"),
            Err(_) => debug!(%peer, "A TLS handshake took too long"),
        }
    }

    async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        self,
        stream: S,
        ends: ConnectionAddresses,
        seat: Arc<ConnectionSlot>,
        protocol: Protocol,
    ) {
        let limits = Arc::clone(&self.limits);
        let io = TokioIo::new(WriteTimeout::new(stream, self.clock.clone(), limits.write_stall_max));
        let (router, watch) = (self.router, protocol.read_watch());
        let service = service_fn({
            let seat = Arc::clone(&seat);
            move |mut request: Request<Incoming>| {
                let in_progress = seat.begin();
                request.extensions_mut().insert(ends);
                let router = router.borrow().clone();
                let answer = router.oneshot(request);
                async move { answer.await.map(|answer| answer.map(|body| GuardedBody::new(body, in_progress, watch))) }
            }
        });
        let over = async {
            tokio::select! {
                () = self.closing.cancelled() => {}
                () = seat.closed() => {}
            }
        };
        let ended = match protocol {
            Protocol::Http1 => {
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(limits.header_time_max)
                    .max_buf_size(BUFFER_LEN_MAX)
                    .serve_connection(io, service);
                let mut connection = pin!(connection);
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = over => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                }
            }
            Protocol::Http2 => {
                let connection = http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .max_concurrent_streams(REQUESTS_MAX)
                    .max_header_list_size(BUFFER_LEN_MAX as u32)
                    .max_send_buf_size(SEND_BUFFER_LEN_MAX)
                    .keep_alive_interval(Some(limits.header_time_max))
                    .keep_alive_timeout(limits.header_time_max)
                    .serve_connection(io, service);
                let mut connection = pin!(connection);
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = over => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                    // Nothing is in progress, or the client does not read: there is nothing to finish.
                    () = seat.unused(limits.header_time_max, limits.write_stall_max) => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            debug!(peer = %ends.peer, %error, "A connection was lost");
        }
    }
}

/// The protocol of a connection: HTTP/2 only where TLS has agreed on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    fn agreed(alpn: Option<&[u8]>) -> Self {
        if alpn == Some(tls::HTTP_2) { Self::Http2 } else { Self::Http1 }
    }

    fn read_watch(self) -> ReadWatch {
        match self {
            Self::Http1 => ReadWatch::Connection,
            Self::Http2 => ReadWatch::Answer,
        }
    }
}

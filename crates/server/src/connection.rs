//! One connection, from the handshake to its end.

use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::debug;

use crate::app::App;
use crate::caller::Ends;
use crate::connections::{Answering, Seat};
use crate::patience::Patient;

/// A request's head is at most this long; about as much waits to be written at any time.
const BUFFER_LEN_MAX: usize = 64 * 1024;

/// Everything that connections share.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) app: App,
    pub(crate) router: Router,
    pub(crate) tls: Option<TlsAcceptor>,
    /// No further requests.
    pub(crate) closing: CancellationToken,
    /// The time for finishing is over.
    pub(crate) killed: CancellationToken,
}

impl Host {
    /// Serves one connection until it ends.
    pub(crate) async fn serve(self, stream: TcpStream, seat: Arc<Seat>) {
        let killed = self.killed.clone();
        tokio::select! {
            () = self.talk(stream, seat) => {}
            () = killed.cancelled() => {}
        }
    }

    async fn talk(self, stream: TcpStream, seat: Arc<Seat>) {
        // An answer should leave at once: it is not followed by anything that could travel with it.
        let _ = stream.set_nodelay(true);
        let (Ok(peer), Ok(local)) = (stream.peer_addr(), stream.local_addr()) else { return };
        let ends = Ends { peer: peer.ip(), local: local.ip() };
        let Some(tls) = self.tls.clone() else { return self.answer(stream, ends, seat).await };
        let handshake = tokio::time::timeout(self.app.limits.header_time_max, tls.accept(stream));
        let stream = tokio::select! {
            stream = handshake => stream,
            () = seat.closed() => return,
        };
        match stream {
            Ok(Ok(stream)) => self.answer(stream, ends, seat).await,
            Ok(Err(error)) => debug!(%peer, %error, "A TLS handshake failed"),
            Err(_) => debug!(%peer, "A TLS handshake took too long"),
        }
    }

    async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S, ends: Ends, seat: Arc<Seat>) {
        let limits = &self.app.limits;
        let stream = Patient::new(stream, self.app.clock.clone(), limits.write_stall_max);
        let router = self.router;
        let service = service_fn({
            let seat = Arc::clone(&seat);
            move |mut request: Request<Incoming>| {
                let in_progress = seat.begin();
                request.extensions_mut().insert(ends);
                let answer = router.clone().oneshot(request);
                async move { answer.await.map(|answer| answer.map(|body| Answering::new(body, in_progress))) }
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time_max)
            .max_buf_size(BUFFER_LEN_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.closing.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = seat.closed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(peer = %ends.peer, %error, "A connection broke off");
        }
    }
}

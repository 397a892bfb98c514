//! A stream wrapper that closes the connection to a client that stops reading.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use domain::Clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream whose writes fail after a time without progress.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    clock: Arc<dyn Clock>,
    stall_max: Duration,
    /// The time-out of a waiting write.
    stalled: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> WriteTimeout<S> {
    /// `stream`, which fails after `stall_max` without progress.
    pub(crate) fn new(stream: S, clock: Arc<dyn Clock>, stall_max: Duration) -> Self {
        Self { stream, clock, stall_max, stalled: None }
    }

    fn judge<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let (clock, stall_max) = (&self.clock, self.stall_max);
        let stalled = self.stalled.get_or_insert_with(|| {
            let clock = Arc::clone(clock);
            Box::pin(async move { clock.sleep(stall_max).await })
        });
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.judge(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judge(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use clock::ManualClock;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn only_a_stalled_reader_times_out() {
        let clock = ManualClock::default();
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut ours = WriteTimeout::new(ours, Arc::new(clock.clone()), Duration::from_secs(60));

        ours.write_all(b"1234").await.unwrap();
        let mut waiting = Box::pin(async { ours.write_all(b"5678").await.map(|()| ours) });
        assert!(futures_util::poll!(&mut waiting).is_pending());
        clock.advance(Duration::from_secs(59));
        let mut read = [0; 4];
        theirs.read_exact(&mut read).await.unwrap();
        let mut ours = waiting.await.unwrap();

        let mut waiting = Box::pin(ours.write_all(b"9"));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        clock.advance(Duration::from_secs(60));
        assert_eq!(waiting.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}

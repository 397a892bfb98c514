//! The open connections. When there are too many, an idle one is closed for a new one, so that idle clients cannot lock
//! others out.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use domain::Clock;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// When another idle connection is closed if the one before has not ended: it may have just begun a request.
const NEXT_AFTER: Duration = Duration::from_millis(100);

/// The open connections.
pub(crate) struct Connections {
    seats: Arc<Semaphore>,
    clock: Arc<dyn Clock>,
    idle: Mutex<Idle>,
    became_idle: Notify,
}

/// Connections without a request in progress, by idle time.
#[derive(Default)]
struct Idle {
    next: u64,
    by_age: BTreeMap<u64, CancellationToken>,
}

/// One open connection's slot; released when dropped.
pub(crate) struct ConnectionSlot {
    connections: Arc<Connections>,
    close: CancellationToken,
    idle_since: Mutex<Option<u64>>,
    _permit: OwnedSemaphorePermit,
}

/// A request in progress on a connection, until its answer is sent.
pub(crate) struct RequestGuard(Arc<ConnectionSlot>);

impl Connections {
    /// No connections yet, and at most `max`.
    pub(crate) fn new(max: usize, clock: Arc<dyn Clock>) -> Self {
        Self { seats: Arc::new(Semaphore::new(max)), clock, idle: Mutex::default(), became_idle: Notify::new() }
    }

    /// A slot for a new connection. If there is none, the connection that has been idle the longest is closed.
    pub(crate) async fn admit(self: &Arc<Self>) -> Arc<ConnectionSlot> {
        loop {
            if let Ok(permit) = Arc::clone(&self.seats).try_acquire_owned() {
                return self.seat(permit);
            }
            let is_closing = self.close_oldest_idle();
            tokio::select! {
                biased;
                Ok(permit) = Arc::clone(&self.seats).acquire_owned() => return self.seat(permit),
                () = self.clock.sleep(NEXT_AFTER), if is_closing => {}
                () = self.became_idle.notified(), if !is_closing => {}
            }
        }
    }

    fn seat(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Arc<ConnectionSlot> {
        let seat = ConnectionSlot {
            connections: Arc::clone(self),
            close: CancellationToken::new(),
            idle_since: Mutex::new(None),
            _permit: permit,
        };
        seat.rest();
        Arc::new(seat)
    }

    /// Returns whether there was one to close.
    fn close_oldest_idle(&self) -> bool {
        let oldest = self.idle.lock().by_age.pop_first();
        oldest.inspect(|(_, close)| close.cancel()).is_some()
    }
}

impl ConnectionSlot {
    /// Resolves when the connection has to close.
    pub(crate) async fn closed(&self) {
        self.close.cancelled().await;
    }

    /// A request begins.
    pub(crate) fn begin(self: &Arc<Self>) -> RequestGuard {
        self.leave_idle();
        RequestGuard(Arc::clone(self))
    }

    fn rest(&self) {
        let mut idle = self.connections.idle.lock();
        let since = idle.next;
        idle.next += 1;
        idle.by_age.insert(since, self.close.clone());
        *self.idle_since.lock() = Some(since);
        drop(idle);
        self.connections.became_idle.notify_one();
    }

    fn leave_idle(&self) {
        let mut idle = self.connections.idle.lock();
        if let Some(since) = self.idle_since.lock().take() {
            idle.by_age.remove(&since);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.leave_idle();
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.rest();
    }
}

/// The body of an answer; the request is in progress until it is sent.
pub(crate) struct GuardedBody {
    body: axum::body::Body,
    _request: RequestGuard,
}

impl GuardedBody {
    /// `body`, with `request` in progress until its end.
    pub(crate) fn new(body: axum::body::Body, request: RequestGuard) -> Self {
        Self { body, _request: request }
    }
}

impl Body for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use clock::ManualClock;

    use super::*;

    fn two() -> Arc<Connections> {
        Arc::new(Connections::new(2, Arc::new(ManualClock::default())))
    }

    // [attack: slow or greedy clients]
    #[tokio::test]
    async fn the_longest_idle_connection_is_closed_first() {
        let connections = two();
        let (first, second) = (connections.admit().await, connections.admit().await);
        drop(first.begin());

        let mut third = Box::pin(connections.admit());
        assert!(futures_util::poll!(&mut third).is_pending());

        assert!(second.close.is_cancelled() && !first.close.is_cancelled());
        drop(second);
        third.await;
    }

    // [attack: slow or greedy clients]
    #[tokio::test]
    async fn a_connection_with_a_request_in_progress_stays() {
        let connections = two();
        let (first, second) = (connections.admit().await, connections.admit().await);
        let (request, other) = (first.begin(), second.begin());

        let mut third = Box::pin(connections.admit());
        assert!(futures_util::poll!(&mut third).is_pending());
        assert!(!first.close.is_cancelled() && !second.close.is_cancelled());
        drop(request);
        assert!(futures_util::poll!(&mut third).is_pending());

        assert!(first.close.is_cancelled() && !second.close.is_cancelled());
        drop((first, other));
        third.await;
    }
}

//! The open connections. When there are too many, an idle one is closed for a new one, so that idle clients cannot lock
//! others out.

use std::collections::{BTreeMap, HashMap};
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
    activity: Mutex<Activity>,
    _permit: OwnedSemaphorePermit,
}

/// What a connection does. With HTTP/2 it has several requests at once.
#[derive(Default)]
struct Activity {
    idle_since: Option<u64>,
    in_progress: usize,
    /// Requests so far.
    begun: u64,
    /// When the first unread answer was last polled, by the number of its request.
    unread_since: HashMap<u64, Duration>,
}

/// A request in progress on a connection, until its answer is sent.
pub(crate) struct RequestGuard {
    slot: Arc<ConnectionSlot>,
    number: u64,
}

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
            activity: Mutex::default(),
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

    /// Resolves when the connection has had no request for a time between `max` and twice that, or when its client has
    /// left an answer unread for `unread_max`. HTTP/1 has timers of its own for both.
    pub(crate) async fn unused(&self, max: Duration, unread_max: Duration) {
        let clock = &self.connections.clock;
        loop {
            let begun = self.activity.lock().begun;
            clock.sleep(max).await;
            let activity = self.activity.lock();
            let is_idle = activity.in_progress == 0 && activity.begun == begun;
            let now = clock.monotonic();
            if is_idle || activity.unread_since.values().any(|since| now.saturating_sub(*since) > unread_max) {
                return;
            }
        }
    }

    /// A request begins.
    pub(crate) fn begin(self: &Arc<Self>) -> RequestGuard {
        let mut idle = self.connections.idle.lock();
        let mut activity = self.activity.lock();
        activity.in_progress += 1;
        activity.begun += 1;
        if let Some(since) = activity.idle_since.take() {
            idle.by_age.remove(&since);
        }
        RequestGuard { slot: Arc::clone(self), number: activity.begun }
    }

    fn end(&self, number: u64) {
        let mut activity = self.activity.lock();
        activity.unread_since.remove(&number);
        activity.in_progress -= 1;
        let is_idle = activity.in_progress == 0;
        drop(activity);
        if is_idle {
            self.rest();
        }
    }

    fn rest(&self) {
        let mut idle = self.connections.idle.lock();
        let mut activity = self.activity.lock();
        if activity.in_progress > 0 || activity.idle_since.is_some() {
            return;
        }
        let since = idle.next;
        idle.next += 1;
        idle.by_age.insert(since, self.close.clone());
        activity.idle_since = Some(since);
        drop((idle, activity));
        self.connections.became_idle.notify_one();
    }
}

impl RequestGuard {
    /// Notes whether the client has yet to read what it was given.
    fn mark(&self, is_unread: bool) {
        let mut activity = self.slot.activity.lock();
        if is_unread {
            activity.unread_since.insert(self.number, self.slot.connections.clock.monotonic());
        } else {
            activity.unread_since.remove(&self.number);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let idle_since = self.activity.lock().idle_since.take();
        if let Some(since) = idle_since {
            self.connections.idle.lock().by_age.remove(&since);
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.slot.end(self.number);
    }
}

/// The body of an answer; the request is in progress until it is sent.
pub(crate) struct GuardedBody {
    body: axum::body::Body,
    request: RequestGuard,
    watch: ReadWatch,
}

/// Whether the server notes how fast a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadWatch {
    /// The connection's own write time-out is enough: HTTP/1.
    Connection,
    /// Each answer has a window of its own, which its client may leave closed: HTTP/2.
    Answer,
}

impl GuardedBody {
    /// `body`, with `request` in progress until its end.
    pub(crate) fn new(body: axum::body::Body, request: RequestGuard, watch: ReadWatch) -> Self {
        Self { body, request, watch }
    }
}

impl Body for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if self.watch == ReadWatch::Answer {
            // The next poll comes when the client has read this piece, or most of it.
            self.request.mark(matches!(polled, Poll::Ready(Some(_))));
        }
        polled
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
    async fn a_connection_is_idle_when_its_last_request_has_ended() {
        let connections = two();
        let (first, second) = (connections.admit().await, connections.admit().await);
        let requests = (first.begin(), first.begin());
        let (_other, (one, two)) = (second.begin(), requests);

        drop(one);
        let mut third = Box::pin(connections.admit());
        assert!(futures_util::poll!(&mut third).is_pending());
        assert!(!first.close.is_cancelled());
        drop(two);
        assert!(futures_util::poll!(&mut third).is_pending());

        assert!(first.close.is_cancelled());
    }

    // [attack: slow or greedy clients]
    #[tokio::test]
    async fn an_answer_that_stays_unread_ends_its_connection() {
        let clock = ManualClock::default();
        let connections = Arc::new(Connections::new(2, Arc::new(clock.clone())));
        let slot = connections.admit().await;
        let request = slot.begin();
        let minute = Duration::from_mins(1);
        let mut unused = Box::pin(slot.unused(minute, minute));

        request.mark(true);
        assert!(futures_util::poll!(&mut unused).is_pending());
        clock.advance(minute);
        assert!(futures_util::poll!(&mut unused).is_pending(), "not for longer than a minute yet");
        request.mark(false);
        clock.advance(minute);
        assert!(futures_util::poll!(&mut unused).is_pending(), "it was read");
        request.mark(true);
        clock.advance(2 * minute);

        assert!(futures_util::poll!(&mut unused).is_ready());
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

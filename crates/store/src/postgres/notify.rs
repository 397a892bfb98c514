//! Notifications of new events: to this process at once, to others in one message for many commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use domain::{Position, StoreError};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::debug;

use super::connection::{Connector, Session};
use super::errors::{ServerError, closed};
use super::transaction;
use crate::meter::Meter;

/// Minimum interval between messages: a message is its own commit, and commits with messages are serialised.
const TELL_EVERY: Duration = Duration::from_millis(20);

/// How long the listener waits before it reconnects.
const RECONNECT_EVERY: Duration = Duration::from_secs(2);

/// The channel's name contains the table's oid, so that fleets in different schemas of one database are independent.
const CHANNEL: &str = "SELECT 'fleet_log_' || 'fleet_log'::regclass::oid";
const NOTIFY: &str = "SELECT pg_notify('fleet_log_' || 'fleet_log'::regclass::oid, $1)";

/// The end of the log, as far as this process knows.
pub(super) struct LogEnd {
    /// `None` once the store is closed.
    sender: Mutex<Option<watch::Sender<Position>>>,
    receiver: watch::Receiver<Position>,
    waiting: AtomicUsize,
    notifications: AtomicU64,
}

impl Default for LogEnd {
    fn default() -> Self {
        let (sender, receiver) = watch::channel(Position(0));
        Self {
            sender: Mutex::new(Some(sender)),
            receiver,
            waiting: AtomicUsize::new(0),
            notifications: AtomicU64::new(0),
        }
    }
}

impl LogEnd {
    /// Records that the log reaches at least this position.
    pub(super) fn reach(&self, position: Position) {
        if let Some(sender) = &*self.sender.lock() {
            sender.send_if_modified(|end| {
                let further = position > *end;
                *end = position.max(*end);
                further
            });
        }
    }

    pub(super) fn position(&self) -> Position {
        *self.receiver.borrow()
    }

    /// Waits until the log reaches beyond `after`.
    pub(super) async fn beyond(&self, after: Position) -> Result<Position, StoreError> {
        let mut receiver = self.receiver.clone();
        let _waiting = Waiter::count(&self.waiting);
        receiver.wait_for(|end| *end > after).await.map(|end| *end).map_err(|_| closed())
    }

    /// The same without counting as a waiting subscriber, so that the server is not polled.
    pub(super) async fn reached(&self, after: Position) -> Result<Position, StoreError> {
        let mut receiver = self.receiver.clone();
        receiver.wait_for(|end| *end > after).await.map(|end| *end).map_err(|_| closed())
    }

    pub(super) fn notifications(&self) -> u64 {
        self.notifications.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self) {
        drop(self.sender.lock().take());
    }
}

/// Counts a waiting subscriber.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn count(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Listens for the notifications of other processes, and sends those of this one.
pub(super) struct Notifier {
    connector: Arc<Connector>,
    meter: Arc<Meter>,
    own: watch::Sender<Position>,
    told: Position,
    look_every: Duration,
}

impl Notifier {
    pub(super) fn new(connector: Arc<Connector>, meter: Arc<Meter>, look_every: Duration) -> Self {
        Self { connector, meter, own: watch::Sender::new(Position(0)), told: Position(0), look_every }
    }

    /// The channel through which the writer publishes its position.
    pub(super) fn own(&self) -> watch::Sender<Position> {
        self.own.clone()
    }

    pub(super) async fn run(mut self) {
        let closing = self.connector.closing.clone();
        closing
            .run_until_cancelled(async {
                loop {
                    if let Err(trouble) = self.listen().await {
                        debug!("The notification listener is reconnecting: {trouble}");
                    }
                    self.connector.clock.sleep(RECONNECT_EVERY).await;
                }
            })
            .await;
    }

    /// Listens and notifies until the connection breaks.
    async fn listen(&mut self) -> Result<(), ServerError> {
        let session = self.connector.connect().await?;
        let rows = session.rows(CHANNEL, &[]).await?;
        let channel: String = rows.first().map_or(Ok(String::new()), |row| row.try_get(0))?;
        session.run(&format!("LISTEN {channel}")).await?;
        // Notifications from before the LISTEN were missed.
        self.read_end(&session).await?;
        let mut own = self.own.subscribe();
        loop {
            let told = self.told;
            tokio::select! {
                () = session.gone() => return Ok(()),
                further = further(&mut own, told) => {
                    let Some(end) = further else { return Ok(()) };
                    self.notify(&session, end).await?;
                    self.connector.clock.sleep(TELL_EVERY).await;
                }
                () = self.connector.clock.sleep(self.look_every) => {
                    if self.connector.end.waiting.load(Ordering::Relaxed) > 0 {
                        self.meter.sweep_reads.add(1);
                        self.read_end(&session).await?;
                    }
                }
            }
        }
    }

    async fn read_end(&self, session: &Session) -> Result<(), ServerError> {
        self.connector.end.reach(transaction::end(session).await?);
        Ok(())
    }

    async fn notify(&mut self, session: &Session, end: Position) -> Result<(), ServerError> {
        session.rows(NOTIFY, &[&end.0.to_string()]).await?;
        self.told = end;
        self.connector.end.notifications.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// The end of the log once it is beyond `told`; `None` once the writer has ended.
async fn further(own: &mut watch::Receiver<Position>, told: Position) -> Option<Position> {
    own.wait_for(|end| *end > told).await.ok().map(|end| *end)
}

//! Word of new events: to this process at once, to others in one message for many commits.

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

/// At most this many messages a second: a message is a commit of its own, and commits with messages queue up.
const TELL_EVERY: Duration = Duration::from_millis(20);

/// How long the one who listens waits before it looks for a lost server again.
const RECONNECT_EVERY: Duration = Duration::from_secs(2);

/// The channel carries the number of the table, so that fleets in one database but in different schemas keep apart.
const CHANNEL: &str = "SELECT 'fleet_log_' || 'fleet_log'::regclass::oid";
const NOTIFY: &str = "SELECT pg_notify('fleet_log_' || 'fleet_log'::regclass::oid, $1)";

/// Where the log ends, as far as this process knows.
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
    /// The log reaches at least this far.
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

    /// The same for one who needs no look at the server: what was written here is enough.
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

/// Somebody who waits.
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

/// Listens for others, and tells them of what was written here.
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

    /// Where the one who writes says how far it has written.
    pub(super) fn own(&self) -> watch::Sender<Position> {
        self.own.clone()
    }

    pub(super) async fn run(mut self) {
        let closing = self.connector.closing.clone();
        closing
            .run_until_cancelled(async {
                loop {
                    if let Err(trouble) = self.listen().await {
                        debug!("Nobody listens to the database for a moment: {trouble}");
                    }
                    self.connector.clock.sleep(RECONNECT_EVERY).await;
                }
            })
            .await;
    }

    /// Listens and tells until the connection breaks.
    async fn listen(&mut self) -> Result<(), ServerError> {
        let session = self.connector.connect().await?;
        let rows = session.rows(CHANNEL, &[]).await?;
        let channel: String = rows.first().map_or(Ok(String::new()), |row| row.try_get(0))?;
        session.run(&format!("LISTEN {channel}")).await?;
        // Nobody told us of what happened before we listened.
        self.look(&session).await?;
        let mut own = self.own.subscribe();
        loop {
            let told = self.told;
            tokio::select! {
                () = session.gone() => return Ok(()),
                further = further(&mut own, told) => {
                    let Some(end) = further else { return Ok(()) };
                    self.tell(&session, end).await?;
                    self.connector.clock.sleep(TELL_EVERY).await;
                }
                () = self.connector.clock.sleep(self.look_every) => {
                    if self.connector.end.waiting.load(Ordering::Relaxed) > 0 {
                        self.meter.sweep_reads.add(1);
                        self.look(&session).await?;
                    }
                }
            }
        }
    }

    async fn look(&self, session: &Session) -> Result<(), ServerError> {
        self.connector.end.reach(transaction::end(session).await?);
        Ok(())
    }

    async fn tell(&mut self, session: &Session, end: Position) -> Result<(), ServerError> {
        session.rows(NOTIFY, &[&end.0.to_string()]).await?;
        self.told = end;
        self.connector.end.notifications.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Where the log ends once it reaches beyond `told`; `None` once nobody writes any more.
async fn further(own: &mut watch::Receiver<Position>, told: Position) -> Option<Position> {
    own.wait_for(|end| *end > told).await.ok().map(|end| *end)
}

//! Leadership: one coordinator at a time may write, because leases and the queue are in its memory.
//!
//! An advisory lock, held as long as its connection, keeps a second coordinator out. A term that rises with every
//! change of leadership, and that every write must match, fences a former leader that has not noticed its loss.

use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, StoreError};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::connection::{Connector, Session};
use super::errors::ServerError;
use super::open_error::OpenError;
use super::url::Url;

/// The lock contains the table's oid, so that fleets in different schemas of one database are independent. The other
/// half of its number is "GIGA".
const LOCK: &str = "SELECT pg_try_advisory_lock((1195984705::bigint << 32) | 'fleet_log'::regclass::oid::bigint)";
/// The same until the end of a transaction.
const LOCK_FOR_NOW: &str =
    "SELECT pg_try_advisory_xact_lock((1195984705::bigint << 32) | 'fleet_log'::regclass::oid::bigint)";
const HOLDER: &str = "\
    SELECT a.application_name || coalesce(' at ' || host(a.client_addr), '') || ', since ' || date_trunc('second', a.backend_start)
    FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.classid = 1195984705 AND l.objid = 'fleet_log'::regclass::oid AND l.granted
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())";
const TAKE_OVER: &str = "UPDATE fleet_log SET term = term + 1 RETURNING term";
pub(super) const TERM: &str = "SELECT term FROM fleet_log";

/// Keepalives: the server detects a vanished machine within half a minute and releases its lock.
const NOTICE: &str = "\
    SELECT set_config('tcp_keepalives_idle', '15', false), set_config('tcp_keepalives_interval', '5', false),
           set_config('tcp_keepalives_count', '3', false), set_config('application_name', $1, false)";

/// How often to try a lock that is held: a coordinator that was just stopped takes a moment to release it.
const TRY_EVERY: Duration = Duration::from_millis(100);
const TRIES: u32 = 50;

/// How long to wait before a lost lock is tried again.
const REGAIN_EVERY: Duration = Duration::from_secs(1);

/// Whether a store has exclusive write access to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exclusivity {
    /// One coordinator at a time: a second one is refused.
    Alone,
    /// Several stores write concurrently. Each write is safe; the coordinators' memory is not shared.
    Shared,
    /// Reads only, beside any coordinator: nothing is created or migrated.
    Guest,
}

/// The right to write.
pub(super) struct Leadership {
    term: Option<i64>,
    lost: CancellationToken,
}

impl Leadership {
    /// Takes the leadership, unless another coordinator has it.
    pub(super) async fn begin(
        connector: &Arc<Connector>,
        url: &Url,
        tenancy: Exclusivity,
    ) -> Result<Arc<Self>, OpenError> {
        let lost = CancellationToken::new();
        if tenancy != Exclusivity::Alone {
            return Ok(Arc::new(Self { term: None, lost }));
        }
        let session = take(connector, url).await?;
        let term = session.rows(TAKE_OVER, &[]).await.and_then(|rows| first(&rows));
        let term = term.map_err(OpenError::server(url))?;
        let tenure = Arc::new(Self { term: Some(term), lost });
        connector.tasks.spawn(keep(Arc::clone(connector), Arc::clone(&tenure), session));
        Ok(tenure)
    }

    /// The term that writes must match.
    pub(super) fn term(&self) -> Option<i64> {
        self.term
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    /// Marks the leadership as lost to another process.
    pub(super) fn lose(&self) {
        if !self.is_lost() {
            error!("Another coordinator took over the database; this one no longer writes");
        }
        self.lost.cancel();
    }

    /// Resolves once another process has the leadership.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

/// The error of a write after the leadership was lost.
pub(super) fn deposed() -> StoreError {
    StoreError::Unavailable("another coordinator took over the database: restart this one".to_owned())
}

/// Locks out coordinators until the end of the transaction; fails if one uses the database.
pub(super) async fn vacant(session: &Session, url: &Url, clock: &dyn Clock) -> Result<(), OpenError> {
    lock(session, url, LOCK_FOR_NOW, clock).await
}

async fn take(connector: &Connector, url: &Url) -> Result<Session, OpenError> {
    let session = connect(connector).await.map_err(OpenError::server(url))?;
    lock(&session, url, LOCK, &*connector.clock).await?;
    Ok(session)
}

async fn lock(session: &Session, url: &Url, sql: &str, clock: &dyn Clock) -> Result<(), OpenError> {
    for _ in 0..TRIES {
        if try_lock(session, sql).await.map_err(OpenError::server(url))? {
            return Ok(());
        }
        clock.sleep(TRY_EVERY).await;
    }
    let holder = session.texts(HOLDER).await.map_err(OpenError::server(url))?.concat();
    Err(OpenError::Taken { url: url.to_string(), holder })
}

async fn connect(connector: &Connector) -> Result<Session, ServerError> {
    let session = connector.connect().await?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // The server truncates it to 63 characters.
    let host: String = host.chars().take(32).collect();
    session.rows(NOTICE, &[&format!("gigafactory {} on {host}", std::process::id())]).await?;
    Ok(session)
}

async fn try_lock(session: &Session, sql: &str) -> Result<bool, ServerError> {
    Ok(session.texts(sql).await? == ["t"])
}

fn first(rows: &[tokio_postgres::Row]) -> Result<i64, ServerError> {
    let row = rows.first().ok_or_else(|| ServerError::Unreachable("the end of the log is missing".to_owned()))?;
    Ok(row.try_get(0)?)
}

/// Holds the lock while the store is open, and takes it again when its connection breaks.
async fn keep(connector: Arc<Connector>, tenure: Arc<Leadership>, session: Session) {
    let closing = connector.closing.clone();
    let keeping = async {
        let mut held = Some(session);
        loop {
            match held.take() {
                Some(session) => {
                    session.gone().await;
                    warn!("The connection that holds the leadership lock was lost, acquiring it again");
                }
                None => connector.clock.sleep(REGAIN_EVERY).await,
            }
            match regain(&connector, &tenure).await {
                Ok(session) => held = session,
                Err(trouble) => warn!("Cannot acquire the leadership lock: {trouble}"),
            }
            if tenure.is_lost() {
                return;
            }
        }
    };
    closing.run_until_cancelled(keeping).await;
}

/// Takes the lock again, if no other process has taken the leadership meanwhile.
async fn regain(connector: &Connector, tenure: &Leadership) -> Result<Option<Session>, ServerError> {
    let session = connect(connector).await?;
    let has_it = try_lock(&session, LOCK).await?;
    if Some(first(&session.rows(TERM, &[]).await?)?) != tenure.term {
        tenure.lose();
        return Ok(None);
    }
    if has_it {
        info!("Acquired the leadership lock again");
    }
    Ok(has_it.then_some(session))
}

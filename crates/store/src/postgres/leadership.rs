//! Who may write: one coordinator at a time, because leases and the queue live in its memory.
//!
//! A lock that lives as long as its connection keeps a second coordinator out while the first one is there. A number that
//! rises whenever somebody takes the database over, and that every write shows, keeps out one that believes to be there
//! still.

use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, StoreError};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::connection::{Connector, Session};
use super::errors::ServerError;
use super::open_error::OpenError;
use super::url::Url;

/// The lock carries the number of the table, so that fleets in one database but in different schemas keep apart. The other
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

/// A machine that vanished is noticed within half a minute, and its lock with it.
const NOTICE: &str = "\
    SELECT set_config('tcp_keepalives_idle', '15', false), set_config('tcp_keepalives_interval', '5', false),
           set_config('tcp_keepalives_count', '3', false), set_config('application_name', $1, false)";

/// How often a lock that somebody has is tried, and for how long: a coordinator that was just stopped takes a moment to go.
const TRY_EVERY: Duration = Duration::from_millis(100);
const TRIES: u32 = 50;

/// How long the keeper of a lost lock waits before it tries again.
const REGAIN_EVERY: Duration = Duration::from_secs(1);

/// Whether a store has the database to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exclusivity {
    /// One coordinator at a time: a second one is refused.
    Alone,
    /// Several stores write at once. Each write is safe; what coordinators keep in memory is not shared between them.
    Shared,
    /// Only reads, whoever works on it: nothing is made or brought up to date.
    Guest,
}

/// The right to write.
pub(super) struct Leadership {
    term: Option<i64>,
    lost: CancellationToken,
}

impl Leadership {
    /// Takes the database over, unless somebody is there.
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

    /// What writes have to show.
    pub(super) fn term(&self) -> Option<i64> {
        self.term
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    /// Somebody else has the database now.
    pub(super) fn lose(&self) {
        if !self.is_lost() {
            error!("Another coordinator has taken the database over; this one writes nothing any more");
        }
        self.lost.cancel();
    }

    /// Resolves once somebody else has the database.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

/// The answer to one who writes after somebody else has taken over.
pub(super) fn deposed() -> StoreError {
    StoreError::Unavailable(
        "another coordinator has taken the database over: this one has to be started again".to_owned(),
    )
}

/// Keeps everybody out until the end of the transaction, unless somebody works on the database.
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
    // The server keeps 63 characters of it.
    let host: String = host.chars().take(32).collect();
    session.rows(NOTICE, &[&format!("gigafactory {} on {host}", std::process::id())]).await?;
    Ok(session)
}

async fn try_lock(session: &Session, sql: &str) -> Result<bool, ServerError> {
    Ok(session.texts(sql).await? == ["t"])
}

fn first(rows: &[tokio_postgres::Row]) -> Result<i64, ServerError> {
    let row = rows.first().ok_or_else(|| ServerError::Unreachable("the log has lost its end".to_owned()))?;
    Ok(row.try_get(0)?)
}

/// Holds the lock for as long as the store is open, and takes it again when its connection breaks.
async fn keep(connector: Arc<Connector>, tenure: Arc<Leadership>, session: Session) {
    let closing = connector.closing.clone();
    let keeping = async {
        let mut held = Some(session);
        loop {
            match held.take() {
                Some(session) => {
                    session.gone().await;
                    warn!("The connection that holds the database for this coordinator broke, holding it again");
                }
                None => connector.clock.sleep(REGAIN_EVERY).await,
            }
            match regain(&connector, &tenure).await {
                Ok(session) => held = session,
                Err(trouble) => warn!("The database cannot be held for this coordinator: {trouble}"),
            }
            if tenure.is_lost() {
                return;
            }
        }
    };
    closing.run_until_cancelled(keeping).await;
}

/// The lock again, if nobody took over meanwhile.
async fn regain(connector: &Connector, tenure: &Leadership) -> Result<Option<Session>, ServerError> {
    let session = connect(connector).await?;
    let has_it = try_lock(&session, LOCK).await?;
    if Some(first(&session.rows(TERM, &[]).await?)?) != tenure.term {
        tenure.lose();
        return Ok(None);
    }
    if has_it {
        info!("The database is held for this coordinator again");
    }
    Ok(has_it.then_some(session))
}

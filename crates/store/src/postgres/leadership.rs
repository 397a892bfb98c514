//! Leadership: one coordinator at a time may write, because leases and the queue are in its memory.
//!
//! An advisory lock, held as long as its connection, keeps a second coordinator out. A term that rises with every
//! change of leadership, and that every write must match, fences a former leader that has not noticed its loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::{Clock, Leader, StoreError, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::connection::{Connector, Session};
use super::errors::ServerError;
use super::open_error::OpenError;
use super::url::Url;
use crate::meter::Meter;

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

/// Keepalives: the server detects a vanished machine within eleven seconds and releases its lock.
const NOTICE: &str = "\
    SELECT set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),
           set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '11000', false),
           set_config('application_name', $1, false)";

/// The leader, as other coordinators see it. Not part of the schema's version: coordinators of other releases read it
/// too, and no backup contains it.
const LEADER_TABLE: &str =
    "CREATE TABLE fleet_leader (one boolean PRIMARY KEY DEFAULT true CHECK (one), doc text NOT NULL)";
const HAS_LEADER_TABLE: &str = "SELECT to_regclass('fleet_leader') IS NOT NULL";
const LEADER: &str = "SELECT doc FROM fleet_leader";
const WRITE_LEADER: &str =
    "INSERT INTO fleet_leader (doc) VALUES ($1) ON CONFLICT (one) DO UPDATE SET doc = excluded.doc";
/// Only our own record: another coordinator may lead already.
pub(super) const RESIGN: &str = "UPDATE fleet_leader SET doc = $1 WHERE doc = $2";
/// The server's random numbers are fit for secrets.
const SECRET: &str = "SELECT replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '')";

/// What a standby polls. It never waits in the server for the lock: a statement that waits holds back the clean-up of
/// dead rows in the whole database.
const TABLES: &str = "SELECT to_regclass('fleet_log') IS NOT NULL, to_regclass('fleet_leader') IS NOT NULL";

/// How often a standby tries the lock.
const STAND_BY_EVERY: Duration = Duration::from_secs(1);

/// How often the leader proves its leadership, and how long the answer may take.
const PROVE_EVERY: Duration = Duration::from_secs(3);
const PROVE_WITHIN: Duration = Duration::from_secs(3);
const PROVE: &str = "SELECT 1";

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

/// The record of the leader.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaderRecord {
    term: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    hop_secret: String,
    since: Timestamp,
    /// It has stopped in order, and answers no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    resigned: bool,
}

impl LeaderRecord {
    fn shown(self) -> Option<Leader> {
        let term = u64::try_from(self.term).ok()?;
        let Self { address, hop_secret, since, resigned, .. } = self;
        (!resigned).then_some(Leader { term, address, hop_secret, since })
    }
}

/// The right to write.
pub(super) struct Leadership {
    term: Option<i64>,
    lost: CancellationToken,
    /// When the store last confirmed it, in nanoseconds of the monotonic clock.
    proved_at: AtomicU64,
    was_taken_over: bool,
    record: Option<LeaderRecord>,
}

impl Leadership {
    /// Takes the leadership, unless another coordinator has it. `held` already has the lock.
    pub(super) async fn begin(
        connector: &Arc<Connector>,
        url: &Url,
        tenancy: Exclusivity,
        (held, address): (Option<Session>, Option<String>),
        meter: &Arc<Meter>,
    ) -> Result<Arc<Self>, OpenError> {
        let lost = CancellationToken::new();
        if tenancy != Exclusivity::Alone {
            let proved_at = AtomicU64::new(0);
            return Ok(Arc::new(Self { term: None, lost, proved_at, was_taken_over: false, record: None }));
        }
        let session = match held {
            Some(session) => session,
            None => take(connector, url).await?,
        };
        let asked_at = connector.clock.monotonic();
        let begun = take_over(&session, address, connector.clock.now()).await.map_err(OpenError::server(url))?;
        let tenure = Arc::new(Self {
            term: Some(begun.record.term),
            lost,
            proved_at: AtomicU64::new(nanos(asked_at)),
            was_taken_over: begun.was_taken_over,
            record: Some(begun.record),
        });
        connector.tasks.spawn(keep(Arc::clone(connector), Arc::clone(&tenure), session, Arc::clone(meter)));
        Ok(tenure)
    }

    /// The store confirmed the leadership to a request of this time.
    pub(super) fn prove(&self, asked_at: Duration) {
        self.proved_at.fetch_max(nanos(asked_at), Ordering::Relaxed);
    }

    /// This process as the leader.
    pub(super) fn shown(&self) -> Option<Leader> {
        self.record.clone().and_then(LeaderRecord::shown)
    }

    /// The record of this leader, with the one that replaces it when it stops.
    pub(super) fn resignation(&self) -> Option<(String, String)> {
        let record = self.record.clone()?;
        let resigned = LeaderRecord { resigned: true, ..record.clone() };
        Some((serde_json::to_string(&resigned).ok()?, serde_json::to_string(&record).ok()?))
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

impl domain::Leadership for Leadership {
    fn proved_at(&self) -> Option<Duration> {
        // Once it is lost, no proof counts any more.
        let proved_at = if self.is_lost() { 0 } else { self.proved_at.load(Ordering::Relaxed) };
        self.term.map(|_| Duration::from_nanos(proved_at))
    }

    fn was_taken_over(&self) -> bool {
        self.was_taken_over
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A leadership that has just begun.
struct BegunLeadership {
    record: LeaderRecord,
    was_taken_over: bool,
}

/// Raises the term and records the leader, in one transaction.
async fn take_over(session: &Session, address: Option<String>, now: Timestamp) -> Result<BegunLeadership, ServerError> {
    session.run("BEGIN").await?;
    if session.texts(HAS_LEADER_TABLE).await? != ["t"] {
        session.run(LEADER_TABLE).await?;
    }
    let former: Option<LeaderRecord> =
        session.texts(LEADER).await?.first().and_then(|doc| serde_json::from_str(doc).ok());
    let term = first(&session.rows(TAKE_OVER, &[]).await?)?;
    let hop_secret = session.texts(SECRET).await?.concat();
    let record = LeaderRecord { term, address, hop_secret, since: now, resigned: false };
    let document = serde_json::to_string(&record).map_err(|error| ServerError::Unreachable(error.to_string()))?;
    session.execute(WRITE_LEADER, &[&document]).await?;
    session.run("COMMIT").await?;
    Ok(BegunLeadership { record, was_taken_over: former.is_some_and(|former| !former.resigned) })
}

/// The state of the leadership lock, as a standby finds it.
enum LockState {
    /// The database has no fleet yet.
    Empty,
    /// The lock is ours.
    Free,
    /// Another coordinator leads.
    Held(Option<Leader>),
}

/// Polls until the lock is ours, on one connection at a time, and shows who leads. `None` if the database is empty. A
/// database of a newer release is never led.
pub(super) async fn stand_by(
    connector: &Connector,
    schema_known: usize,
    seen: &watch::Sender<Option<Leader>>,
) -> Option<Session> {
    let (mut held, mut is_away) = (None, false);
    loop {
        let attempt = match held.take() {
            Some(session) => Ok(session),
            None => connect(connector).await,
        };
        let attempt = match attempt {
            Ok(session) => try_to_lead(&session, schema_known).await.map(|lock| (session, lock)),
            Err(trouble) => Err(trouble),
        };
        match attempt {
            Ok((_, LockState::Empty)) => return None,
            Ok((session, LockState::Free)) => return Some(session),
            Ok((session, LockState::Held(leader))) => {
                (held, is_away) = (Some(session), false);
                seen.send_if_modified(|seen| {
                    let is_news = *seen != leader;
                    *seen = leader;
                    is_news
                });
            }
            Err(trouble) => {
                if !std::mem::replace(&mut is_away, true) {
                    warn!("The standby cannot reach the database, trying again: {trouble}");
                }
            }
        }
        connector.clock.sleep(STAND_BY_EVERY).await;
    }
}

async fn try_to_lead(session: &Session, schema_known: usize) -> Result<LockState, ServerError> {
    let tables = session.texts(TABLES).await?;
    let has = |n: usize| tables.get(n).is_some_and(|text| text == "t");
    if !has(0) {
        return Ok(LockState::Empty);
    }
    let version = session.texts("SELECT version FROM fleet_schema").await?.concat();
    let is_newer = version.parse::<usize>().is_ok_and(|version| version > schema_known);
    if !is_newer && try_lock(session, LOCK).await? {
        return Ok(LockState::Free);
    }
    if !has(1) {
        return Ok(LockState::Held(None));
    }
    let record = session.texts(LEADER).await?;
    let record: Option<LeaderRecord> = record.first().and_then(|doc| serde_json::from_str(doc).ok());
    Ok(LockState::Held(record.and_then(LeaderRecord::shown)))
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

/// Holds the lock while the store is open, proves it at intervals, and takes it again when its connection breaks.
async fn keep(connector: Arc<Connector>, tenure: Arc<Leadership>, session: Session, meter: Arc<Meter>) {
    let closing = connector.closing.clone();
    let keeping = async {
        let mut held = Some(session);
        loop {
            match held.take() {
                Some(session) => {
                    hold(&connector, &tenure, &session, &meter).await;
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

/// Proves the leadership at intervals until the connection breaks: while it stands, the lock is ours. A server that
/// answers late costs only the proof.
async fn hold(connector: &Connector, tenure: &Leadership, session: &Session, meter: &Meter) {
    loop {
        tokio::select! {
            () = session.gone() => return,
            () = connector.clock.sleep(PROVE_EVERY) => {}
        }
        let asked_at = connector.clock.monotonic();
        meter.leadership_checks.add(1);
        let proof = tokio::time::timeout(PROVE_WITHIN, session.run(PROVE)).await;
        match proof {
            Ok(Ok(())) => tenure.prove(asked_at),
            Ok(Err(trouble)) if !session.is_broken() => warn!("Cannot prove the leadership: {trouble}"),
            Ok(Err(_)) => return,
            Err(_) => warn!("The database did not confirm the leadership within {PROVE_WITHIN:?}"),
        }
    }
}

/// Takes the lock again, if no other process has taken the leadership meanwhile.
async fn regain(connector: &Connector, tenure: &Leadership) -> Result<Option<Session>, ServerError> {
    let session = connect(connector).await?;
    let asked_at = connector.clock.monotonic();
    let has_it = try_lock(&session, LOCK).await?;
    if Some(first(&session.rows(TERM, &[]).await?)?) != tenure.term {
        tenure.lose();
        return Ok(None);
    }
    if has_it {
        tenure.prove(asked_at);
        info!("Acquired the leadership lock again");
    }
    Ok(has_it.then_some(session))
}

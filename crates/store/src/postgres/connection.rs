//! Connections. The settings that durability and query plans depend on are set and read back.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, Position};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Row, SimpleQueryMessage, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::errors::ServerError;
use super::notify::LogEnd;
use super::open_error::OpenError;
use super::tls;
use super::url::{Flushing, Url};

/// Longer than the server's statement timeout: only an unreachable server takes this long.
const ANSWER_WITHIN: Duration = Duration::from_secs(40);

/// Timeout of one connection attempt.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How long a caller waits for a server that is down: the time of a restart.
const RECONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The pauses between attempts to reconnect.
const RECONNECT_PAUSES: [Duration; 7] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// The oldest version that has all required features and is still maintained.
const VERSION_MIN: u32 = 130_000;

const FOUND: &str =
    "SELECT current_setting('server_version_num'), current_setting('server_version'), current_setting('fsync')";

/// Every statement uses an index, and is planned once per connection, so that no statistics make the planner scan a
/// whole table. A commit waits at least for the local disk; a role may require more. The transaction of a hanging
/// process is ended soon, so that other writers can continue. On an older server the settings are skipped: it is
/// refused for its version.
const SET_UP: &str = "\
    SELECT set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
               THEN 'on' ELSE current_setting('synchronous_commit') END, false),
           set_config('plan_cache_mode', 'force_generic_plan', false),
           set_config('enable_seqscan', 'off', false),
           set_config('enable_bitmapscan', 'off', false),
           set_config('enable_hashjoin', 'off', false),
           set_config('enable_mergejoin', 'off', false),
           set_config('jit', 'off', false),
           set_config('default_transaction_isolation', 'read committed', false),
           set_config('statement_timeout', '30s', false),
           set_config('idle_in_transaction_session_timeout', '10s', false),
           set_config('application_name', 'gigafactory', false)
    WHERE current_setting('server_version_num')::integer >= 130000";

/// Whether a caller waits for a server that is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectWait {
    /// Not at all.
    None,
    /// For the time of a restart.
    Restart,
}

/// Opens connections.
pub(super) struct Connector {
    url: Url,
    tls: Option<MakeRustlsConnect>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) tasks: TaskTracker,
    pub(super) closing: CancellationToken,
    /// Receives notifications.
    pub(super) end: Arc<LogEnd>,
}

impl Connector {
    pub(super) fn new(
        url: Url,
        clock: Arc<dyn Clock>,
        tasks: TaskTracker,
        closing: CancellationToken,
        end: Arc<LogEnd>,
    ) -> Result<Self, OpenError> {
        let tls = tls::connector(&url.encryption)?;
        let mut url = url;
        url.config.connect_timeout(CONNECT_WITHIN);
        // Keepalives detect an unreachable server on an idle connection.
        url.config.keepalives_idle(Duration::from_secs(30)).tcp_user_timeout(Duration::from_secs(30));
        Ok(Self { url, tls, clock, tasks, closing, end })
    }

    /// The first connection. Its errors distinguish everything that can be wrong with the server.
    pub(super) async fn first(&self, patience: ConnectWait) -> Result<Session, OpenError> {
        if !self.url.is_private() {
            warn!("The connection to {} is not encrypted: add sslmode=require to the address", self.url);
        }
        let session = match patience {
            ConnectWait::None => self.connect().await,
            ConnectWait::Restart => self.connect_patiently().await,
        };
        let session = session.map_err(OpenError::server(&self.url))?;
        let found = session.texts(FOUND).await.map_err(OpenError::server(&self.url))?;
        let text = |n: usize| found.get(n).cloned().unwrap_or_default();
        let url = self.url.to_string();
        if text(0).parse::<u32>().unwrap_or(0) < VERSION_MIN {
            return Err(OpenError::TooOld { url, found: text(1) });
        }
        if text(2) != "on" {
            if self.url.flushing == Flushing::Required {
                return Err(OpenError::NotDurable { url });
            }
            warn!("The database at {url} runs with fsync=off: a crash of its machine loses acknowledged writes");
        }
        Ok(session)
    }

    /// Connects in one attempt.
    pub(super) async fn connect(&self) -> Result<Session, ServerError> {
        let session = self.dial().await?;
        session.texts(SET_UP).await?;
        Ok(session)
    }

    /// Connects; retries while the server restarts.
    pub(super) async fn connect_patiently(&self) -> Result<Session, ServerError> {
        let connected = tokio::time::timeout(RECONNECT_WITHIN, self.connect_again_and_again()).await;
        connected.unwrap_or(Err(ServerError::Silent)).map_err(ServerError::while_connecting)
    }

    async fn connect_again_and_again(&self) -> Result<Session, ServerError> {
        for pause in RECONNECT_PAUSES {
            match self.connect().await {
                Err(trouble) if trouble.may_pass() && !self.closing.is_cancelled() => {
                    debug!("The database is unavailable, reconnecting: {trouble}");
                }
                outcome => return outcome,
            }
            tokio::select! {
                () = self.closing.cancelled() => {}
                () = self.clock.sleep(pause) => {}
            }
        }
        self.connect().await
    }

    async fn dial(&self) -> Result<Session, ServerError> {
        let dialling = async {
            Ok(match &self.tls {
                Some(tls) => {
                    let (client, connection) = self.url.config.connect(tls.clone()).await?;
                    Session::new(client, self.drive(connection))
                }
                None => {
                    let (client, connection) = self.url.config.connect(NoTls).await?;
                    Session::new(client, self.drive(connection))
                }
            })
        };
        tokio::time::timeout(ANSWER_WITHIN, dialling).await.unwrap_or(Err(ServerError::Silent))
    }

    /// Drives the connection until its client is dropped or it breaks; then cancels the token.
    fn drive<S, T>(&self, mut connection: Connection<S, T>) -> CancellationToken
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let gone = CancellationToken::new();
        let (told, end) = (gone.clone().drop_guard(), Arc::clone(&self.end));
        self.tasks.spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(notification) = message
                    && let Ok(position) = notification.payload().parse()
                {
                    end.reach(Position(position));
                }
            }
            drop(told);
        });
        gone
    }
}

/// One connection with its prepared statements.
pub(super) struct Session {
    pub(super) client: Client,
    statements: Mutex<HashMap<&'static str, Statement>>,
    gone: CancellationToken,
}

impl Session {
    fn new(client: Client, gone: CancellationToken) -> Self {
        Self { client, statements: Mutex::default(), gone }
    }

    /// Reports whether the connection is unusable.
    pub(super) fn is_broken(&self) -> bool {
        self.gone.is_cancelled() || self.client.is_closed()
    }

    /// Marks the connection as unusable.
    pub(super) fn mark_broken(&self) {
        self.gone.cancel();
    }

    /// Resolves once the connection is unusable.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// The statement; prepares it on first use.
    pub(super) async fn prepared(&self, sql: &'static str) -> Result<Statement, ServerError> {
        if let Some(statement) = self.statements.lock().get(sql) {
            return Ok(statement.clone());
        }
        let statement = in_time(self.client.prepare(sql)).await?;
        self.statements.lock().insert(sql, statement.clone());
        Ok(statement)
    }

    /// Runs a statement; returns its rows.
    pub(super) async fn rows(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, ServerError> {
        let statement = self.prepared(sql).await?;
        in_time(self.client.query(&statement, params)).await
    }

    /// Runs a statement; returns the number of changed rows.
    pub(super) async fn execute(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, ServerError> {
        let statement = self.prepared(sql).await?;
        in_time(self.client.execute(&statement, params)).await
    }

    /// Runs statements without results, one after the other.
    pub(super) async fn run(&self, sql: &str) -> Result<(), ServerError> {
        in_time(self.client.batch_execute(sql)).await
    }

    /// The single row of a query without parameters.
    pub(super) async fn texts(&self, sql: &str) -> Result<Vec<String>, ServerError> {
        let messages = in_time(self.client.simple_query(sql)).await?;
        let row = messages.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let Some(row) = row else { return Ok(Vec::new()) };
        Ok((0..row.len()).map(|n| row.get(n).unwrap_or_default().to_owned()).collect())
    }
}

/// Adds the answer timeout to a request.
pub(super) async fn in_time<T>(
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, ServerError> {
    match tokio::time::timeout(ANSWER_WITHIN, answer).await {
        Ok(answer) => answer.map_err(ServerError::from),
        Err(_) => Err(ServerError::Silent),
    }
}

//! Connections that run one statement at a time.

use std::sync::Arc;

use domain::{CommitError, StoreError};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::{Connector, Session};
use super::errors::{ErrorSource, ServerError, closed};

/// A bounded number of connections, opened on demand; a caller waits until one is free.
pub(super) struct Pool {
    connector: Arc<Connector>,
    free: Mutex<Vec<Session>>,
    permits: Semaphore,
}

impl Pool {
    pub(super) fn new(connector: Arc<Connector>, connections: usize) -> Self {
        Self { connector, free: Mutex::default(), permits: Semaphore::new(connections) }
    }

    /// Returns a connection to the pool.
    pub(super) fn put(&self, session: Session) {
        if !session.is_broken() && !self.permits.is_closed() {
            self.free.lock().push(session);
        }
    }

    /// Runs a read. Retried once if the connection turns out to be broken.
    pub(super) async fn rows(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, StoreError> {
        let _permit = self.permit().await?;
        let mut last = None;
        for _ in 0..2 {
            let session = self.take().await.map_err(|trouble| trouble.to_store_error())?;
            match session.rows(sql, params).await {
                Ok(rows) => {
                    self.put(session);
                    return Ok(rows);
                }
                Err(trouble) if trouble.blame() == ErrorSource::Connection => last = Some(trouble),
                Err(trouble) => {
                    self.put(session);
                    return Err(trouble.to_store_error());
                }
            }
        }
        Err(last.map_or_else(closed, |trouble| trouble.to_store_error()))
    }

    /// Runs a write; returns the number of changed rows. Never retried: a broken connection may have executed it.
    pub(super) async fn execute(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, CommitError> {
        let _permit = self.permit().await?;
        let session = self.ready(sql).await.map_err(|trouble| trouble.to_store_error())?;
        match session.execute(sql, params).await {
            Ok(changed) => {
                self.put(session);
                Ok(changed)
            }
            Err(trouble) if trouble.blame() == ErrorSource::Connection => Err(CommitError::Unknown),
            Err(trouble) => {
                self.put(session);
                Err(trouble.to_store_error().into())
            }
        }
    }

    /// Closes the idle connections; the others close after their current use.
    pub(super) fn close(&self) {
        self.permits.close();
        self.free.lock().clear();
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        self.permits.acquire().await.map_err(|_| closed())
    }

    /// A connection that has just answered, so that the next statement is likely to reach the server.
    async fn ready(&self, sql: &'static str) -> Result<Session, ServerError> {
        let session = self.take().await?;
        match session.prepared(sql).await {
            Ok(_) => Ok(session),
            Err(trouble) if trouble.blame() == ErrorSource::Connection => self.take().await,
            Err(trouble) => Err(trouble),
        }
    }

    async fn take(&self) -> Result<Session, ServerError> {
        loop {
            let Some(session) = self.free.lock().pop() else { break };
            if !session.is_broken() {
                return Ok(session);
            }
        }
        self.connector.connect_patiently().await
    }
}

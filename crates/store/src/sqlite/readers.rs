//! Connections that read, on blocking threads. They never block the writer.

use std::sync::Arc;

use domain::StoreError;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::errors::{closed, to_store_error};

/// A fixed number of connections; a caller waits until one is free.
pub(super) struct Readers {
    free: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
    /// Lists leave half of the connections to reads of single things.
    lists: Semaphore,
    count: usize,
}

impl Readers {
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        let count = connections.len();
        let (permits, lists) = (Arc::new(Semaphore::new(count)), Semaphore::new(count.div_ceil(2)));
        Self { free: Arc::new(Mutex::new(connections)), permits, lists, count }
    }

    /// Runs `question` on a free connection.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| closed())?;
        let free = Arc::clone(&self.free);
        let answer = tokio::task::spawn_blocking(move || {
            let taken = free.lock().pop();
            let connection = PooledConnection { free: &free, connection: taken };
            let answer = connection.connection.as_ref().map(question);
            drop(connection);
            // Release the permit only after the connection is back in the pool.
            drop(permit);
            answer
        });
        match answer.await {
            Ok(Some(Ok(value))) => Ok(value),
            Ok(Some(Err(error))) => Err(to_store_error(&error)),
            Ok(None) | Err(_) => Err(closed()),
        }
    }

    /// Runs a `question` that may examine many rows.
    pub(super) async fn list<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _turn = self.lists.acquire().await.map_err(|_| closed())?;
        self.ask(question).await
    }

    /// Waits for the running reads and closes all connections.
    pub(super) async fn close(&self) {
        let all = u32::try_from(self.count).unwrap_or(u32::MAX);
        // An error means that the connections are already closed.
        if let Ok(permits) = self.permits.acquire_many(all).await {
            self.free.lock().clear();
            self.permits.close();
            drop(permits);
        }
    }
}

/// A connection that returns to the pool when it is dropped, even after a panic.
struct PooledConnection<'a> {
    free: &'a Mutex<Vec<Connection>>,
    connection: Option<Connection>,
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.free.lock().push(connection);
        }
    }
}

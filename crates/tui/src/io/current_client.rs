//! The client that is in use.

use std::sync::{Arc, Mutex, PoisonError};

use client::Client;

use super::{Connect, ConnectError};
use crate::message::ReadError;

/// The client of the last connection, for reads and actions.
#[derive(Clone)]
pub(super) struct CurrentClient {
    connect: Arc<dyn Connect>,
    client: Arc<Mutex<Option<Client>>>,
}

impl CurrentClient {
    pub(super) fn new(connect: Arc<dyn Connect>) -> Self {
        Self { connect, client: Arc::new(Mutex::new(None)) }
    }

    /// A client for a new connection.
    pub(super) fn reconnect(&self) -> Result<Client, ReadError> {
        let client = self.connect.connect().map_err(|error| match error {
            ConnectError::NoToken(text) => ReadError::SignedOut(text),
            ConnectError::NoCoordinator(text) => ReadError::Unreachable(text),
        })?;
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }

    /// The client that is in use.
    pub(super) fn get(&self) -> Result<Client, ReadError> {
        let current = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        current.ok_or_else(|| ReadError::Unreachable("not connected".to_owned()))
    }
}

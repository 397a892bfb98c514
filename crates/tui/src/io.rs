//! The runtime: the terminal and the coordinator on one side, the model on the other.

mod act;
mod current_client;
mod fetch;
mod follow;
mod logs;

mod run;
mod screen;
mod terminal;

use std::sync::Arc;

use client::{Client, ClientError};
use domain::{Clock, Entropy, clean_line};

use crate::look::Look;
use crate::message::ReadError;
use crate::model::FolderListing;

pub use run::run;
#[cfg(test)]
pub(crate) use screen::Screen;

/// What a dashboard needs.
pub struct Dashboard {
    /// How it looks.
    pub look: Look,
    /// The most often that it draws.
    pub draws_per_second: u32,
    /// The way to the coordinator.
    pub connect: Arc<dyn Connect>,
    /// The product that lists are limited to at first.
    pub product: Option<String>,
    /// The folder queue that it shows, with its directory.
    pub folder: Option<(String, Arc<dyn FolderSource>)>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// For the pauses between attempts.
    pub entropy: Arc<dyn Entropy>,
}

/// Makes clients. Asked again after each lost connection: a restarted coordinator may have another address.
pub trait Connect: Send + Sync {
    /// A client; nothing is sent yet.
    fn connect(&self) -> Result<Client, ConnectError>;
}

/// Why there is no client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectError {
    /// There is no token.
    NoToken(String),
    /// There is no coordinator.
    NoCoordinator(String),
}

/// Lists the files of a folder queue.
pub trait FolderSource: Send + Sync {
    /// The files now.
    fn list(&self) -> Result<FolderListing, String>;
}

/// What an error of a request means for the screen.
fn read_error(error: &ClientError) -> ReadError {
    let text = clean_line(&error.to_string());
    match error {
        ClientError::Refused(problem) if problem.status == 401 => ReadError::SignedOut(text),
        ClientError::Refused(problem) if problem.status >= 500 => ReadError::Unreachable(text),
        ClientError::Refused(_) | ClientError::Garbled { .. } | ClientError::Unusable(_) => ReadError::Refused(text),
        ClientError::NoAnswer { .. } | ClientError::Tls { .. } | ClientError::Unproven { .. } => {
            ReadError::Unreachable(text)
        }
    }
}

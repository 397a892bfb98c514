//! Whether a coordinator runs on the data folder, which decides how a backup is taken and put back.

use std::path::PathBuf;

use protocol::{Client, Health};

use crate::api::{connect, connect_as_nobody};
use crate::config::Origin;
use crate::failure::Failure;

use super::Context;

/// Where the store is.
pub(super) enum Whereabouts {
    /// A coordinator has it: it is asked.
    Running(Client),
    /// Nobody has it open, as far as can be told; its lock has the last word.
    Closed(PathBuf),
}

/// Finds the store: the coordinator at the address that somebody named, or else the data folder, and the coordinator that
/// runs on it if one does.
pub(super) async fn find(context: &Context<'_>) -> Result<Whereabouts, Failure> {
    let config = &context.config;
    let is_running = match config.client.api.origin {
        Origin::Flag(_) | Origin::Variable(_) | Origin::File { .. } => true,
        // The file may be of a coordinator that was killed.
        Origin::Beside(_) => connect_as_nobody(config)?.get::<Health>("/healthz").await.is_ok(),
        Origin::Default => false,
    };
    Ok(match is_running {
        true => Whereabouts::Running(connect(config)?),
        false => Whereabouts::Closed(config.data.database()),
    })
}

//! Where the store is and who has it, which decides how a backup is taken and put back.

use client::Client;
use protocol::Health;
use store::StoreUrl;

use crate::api::{connect, connect_as_nobody};
use crate::config::Origin;
use crate::failure::Failure;

use super::Context;

/// Where the store is.
pub(super) enum StoreLocation {
    /// A running coordinator has it open: requests go there.
    Running(Client),
    /// No coordinator is known to have it open; the lock of the store decides.
    Offline(StoreUrl),
}

/// Finds the store: the one that is named, the data directory of the command line, the coordinator at the address that
/// is named, or else what the data directory's coordinator uses, through the coordinator if it runs.
pub(super) async fn find(context: &Context<'_>) -> Result<StoreLocation, Failure> {
    let config = &context.config;
    let is_named = matches!(config.coordinator.store.origin, Origin::Flag(_));
    let is_folder_named = matches!(config.data.origin(), Origin::Flag(_));
    let is_running = match config.client.api.origin {
        Origin::Flag(_) if is_folder_named => {
            let (what, hint) = ("--data and --api may be two different fleets", "give the one that you mean");
            return Err(Failure::usage(what).hint(hint));
        }
        // A permanent setting does not redirect a directory that the command line names to another fleet.
        Origin::Variable(_) | Origin::File { .. } if is_folder_named => false,
        Origin::Flag(_) | Origin::Variable(_) | Origin::File { .. } => true,
        // The file may be of a coordinator that was killed.
        Origin::Beside(_) => connect_as_nobody(config)?.get::<Health>("/healthz").await.is_ok(),
        Origin::Derived { .. } | Origin::Default => false,
    };
    if is_running && !is_named {
        return Ok(StoreLocation::Running(connect(config)?));
    }
    let store: &StoreUrl = &config.coordinator.store.value;
    Ok(StoreLocation::Offline(store.clone()))
}

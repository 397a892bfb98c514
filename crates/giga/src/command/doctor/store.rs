//! The database of a coordinator that does not keep its own.

use std::sync::Arc;

use clock::SystemClock;
use store::PostgresStore;

use crate::config::{Config, StoreChoice};

use super::check::Check;

/// Queries the database, if it is not a file of the data directory.
pub(super) async fn examine(config: &Config) -> Option<Check> {
    let StoreChoice::Postgres(url) = &config.coordinator.store.value else { return None };
    Some(match PostgresStore::probe(url, Arc::new(SystemClock::new())).await {
        Ok(found) => Check::ok("database", format!("{url} is {found}")),
        Err(error) => Check::fail("database", error.to_string(), "set by coordinator.store, GIGA_STORE or --store"),
    })
}

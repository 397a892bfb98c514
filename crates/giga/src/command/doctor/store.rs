//! The database of a coordinator that does not keep its own.

use std::sync::Arc;

use clock::SystemClock;

use crate::config::Config;

use super::check::Check;

/// Queries the database, if it is not a file of the data directory.
pub(super) async fn examine(config: &Config) -> Option<Check> {
    let store = &config.coordinator.store.value;
    Some(match store.probe(Arc::new(SystemClock::new())).await? {
        Ok(found) => Check::ok("database", format!("{} is {found}", **store)),
        Err(error) => Check::fail("database", error.to_string(), "set by coordinator.store, GIGA_STORE or --store"),
    })
}
